"""The whole product with tokens in force: everybody does their work, and nobody more than that."""

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from frontrow.client import AsyncSpiderClient
from frontrow.ingest.v1 import gallery_pb2

from demo.site import ImageSite
from libs.common.testing import eventually
from tests.e2e.process import ROOT, Process

pytestmark = pytest.mark.timeout(300)  # a whole process

ROLES = {"frontrow": ["service", "worker"], "ann": ["editor"], "olga": ["ops"], "root": ["admin"]}
SILENT = str(ROOT / "samples" / "edge" / "noaudio.mp4")


@pytest.fixture
def guarded(data_dir: Path, database_url: str) -> Iterator[Process]:
    """Give an instance that takes the tokens of ROLES; each subject's is in a file of that name."""
    folder = data_dir.parent
    entries = []
    for subject, roles in ROLES.items():
        token = f"token-of-{subject}"
        (folder / f"{subject}.token").write_text(token)
        digest = hashlib.sha256(token.encode()).hexdigest()
        entries.append(f'[[tokens]]\nsubject = "{subject}"\nroles = {roles}\nsha256 = "{digest}"\n')
    tokens = folder / "tokens.toml"
    tokens.write_text("\n".join(entries))
    running = Process(
        data_dir,
        {
            "FRONTROW_DATABASE_URL": database_url,
            "FRONTROW_TOKENS_FILE": str(tokens),
            "FRONTROW_TOKEN_FILE": str(folder / "frontrow.token"),
            "FRONTROW_INGEST_WORKER_ALLOW_LOOPBACK": "true",
        },
    ).start()
    yield running
    assert running.stop() == 0


def _mine(running: Process, subject: str) -> dict[str, str]:
    return {"FRONTROW_TOKEN_FILE": str(running.data_dir.parent / f"{subject}.token")}


def _nobody_sees_anything(running: Process) -> None:
    """Check what is told without a token: health alone."""
    nobody = running.cli("queues")
    assert nobody.returncode == 1
    assert "FRONTROW_TOKEN_FILE" in nobody.stderr
    assert running.cli("status").returncode == 0
    looked = running.cli("top", "--once")
    assert (looked.returncode, "TOKEN_MISSING" in looked.stdout) == (1, True)


async def test_a_gallery_and_a_recording_go_their_way_and_each_person_does_only_their_own(
    guarded: Process, site: ImageSite
) -> None:
    ann, olga, root = (_mine(guarded, subject) for subject in ("ann", "olga", "root"))
    _nobody_sees_anything(guarded)
    assert guarded.cli_json("top", **olga)["trouble"] == ""
    assert "editor" in guarded.cli("brands", "add", "Maison", **olga).stderr
    assert "admin" in guarded.cli("spiders", "add", "vogue", **ann).stderr
    guarded.cli_json("brands", "add", "Maison", **ann)
    key = guarded.cli_json("spiders", "add", "vogue", **root)

    image = gallery_pb2.GalleryImage(url=f"{site.origin}/photos/rocket.jpg", position=1)
    gallery = gallery_pb2.Gallery(
        kind=gallery_pb2.GALLERY_KIND_RUNWAY, title="Show", source="vogue", source_url="https://v/1",
        brand="Maison", season_code="Fall 2026 Ready-to-Wear", images=[image],
    )  # fmt: skip
    address = guarded.addresses()["ingest"]
    async with AsyncSpiderClient(address, key_id=key["key_id"], secret=key["secret"]) as spider:
        job_id = (await spider.submit(gallery)).job_id
    recording = await asyncio.to_thread(guarded.cli_json, "materials", "add", SILENT, **ann)

    async def draft_id() -> str:
        job = await asyncio.to_thread(guarded.cli_json, "jobs", job_id, **olga)
        return str(job.get("draft_id", ""))

    made = await eventually(draft_id, 60)
    guarded.cli_json("approve", "runway", made, **ann, FRONTROW_ACTOR="somebody else")
    history = guarded.cli_json("drafts", "runway", made, **ann)["history"]
    assert "ann" in [event["actor"] for event in history]
    assert "somebody else" not in [event["actor"] for event in history]

    async def failed() -> bool:
        listed = await asyncio.to_thread(guarded.cli_json, "materials", "list", **olga)
        return [one["asr_status"] for one in listed if one["id"] == recording["id"]] == ["ASR_STATUS_FAILED"]

    await eventually(failed, 60)
