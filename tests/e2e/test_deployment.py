"""The deployments of the compose file and of docs/deployment.md: an authority of their own, four servers and
the workers over mutual TLS, tokens, a database role for each server on a PostgreSQL reached over TCP, and a
gallery that goes all the way."""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import grpc
import pytest
from frontrow.client import AsyncSpiderClient
from frontrow.ingest.v1 import gallery_pb2
from frontrow.task.v1 import task_service_pb2, task_service_pb2_grpc

from demo.site import ImageSite
from libs.common.child import command
from libs.common.client import connect, reason_of
from libs.common.database_passwords import OWN_FILE
from libs.common.settings import TransportSettings
from libs.common.testing import eventually
from services.migrate import CONTEXTS
from tests.e2e.command import run
from tests.e2e.compose import Deployment, free_ports
from tests.e2e.external_postgres import ExternalPostgres, external_postgres
from tests.e2e.process import ROOT, environment
from tests.integration.objects.servers import KEYS, moto_endpoint

pytestmark = pytest.mark.timeout(300)  # eight processes

_VALUES = {
    "S3_ACCESS_KEY": KEYS["access_key_id"],
    "S3_SECRET_KEY": KEYS["secret_access_key"],
    "INGEST_SEALING_KEY": "5e" * 32,
    "LOG_LEVEL": "INFO",
}
_WORKERS = ("ingest-worker", "asr-worker", "slicing-worker")


@contextmanager
def _bucket() -> Iterator[str]:
    """Run an S3 server with the bucket that the service `bucket` makes; yield the store's URL."""
    with moto_endpoint() as endpoint:
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEYS["access_key_id"],
            aws_secret_access_key=KEYS["secret_access_key"],
        )
        client.create_bucket(Bucket="frontrow")
        client.close()
        yield f"s3://frontrow/objects?endpoint={endpoint}"


@pytest.fixture
async def database() -> AsyncIterator[ExternalPostgres]:
    async with external_postgres() as made:
        yield made


@pytest.fixture
def deployment(database: ExternalPostgres) -> Iterator[Deployment]:
    folder = Path(tempfile.mkdtemp(prefix="frontrow-compose-"))
    with _bucket() as store:
        made = Deployment(
            folder,
            values={**_VALUES, "POSTGRES_PASSWORD": database.password},
            hosts={"postgres": database.host},
            outside={
                "FRONTROW_OBJECT_STORE": store,
                "FRONTROW_OTLP_ENDPOINT": None,
            },
            extra={
                "ingest-worker": {
                    "FRONTROW_INGEST_WORKER_LISTEN": "127.0.0.1:7111",
                    "FRONTROW_INGEST_WORKER_ALLOW_LOOPBACK": "true",
                },
                "asr-worker": {"FRONTROW_ASR_WORKER_LISTEN": "127.0.0.1:7123"},
                "slicing-worker": {"FRONTROW_SLICING_LISTEN": "127.0.0.1:7113"},
            },
        )
        try:
            yield made
        finally:
            made.down()
            shutil.rmtree(folder)


async def test_a_gallery_goes_its_way_over_mutual_tls_and_nobody_else_gets_in(
    deployment: Deployment, database: ExternalPostgres, site: ImageSite
) -> None:
    await asyncio.to_thread(deployment.up, *_WORKERS, "ingest", "review", "asr", "task")
    assert (await asyncio.to_thread(deployment.run, "cli", "status")).returncode == 0
    made = await _through(deployment, site)
    _cli(deployment, "approve", "runway", made)
    assert _cli(deployment, "drafts", "runway", made)["draft"]["status"] == "DRAFT_STATUS_APPROVED"
    await _nobody_else(deployment)
    await database.want_contexts_apart(
        {name: deployment.volume(f"{name}-identity") / OWN_FILE for name in CONTEXTS}
    )
    copied = await asyncio.to_thread(deployment.run, "owner", "db", "backup", "/backups/first", "--json")
    assert copied.returncode == 0, copied.stderr
    assert json.loads(copied.stdout)["lost"] == []
    before = _identities(deployment)
    await asyncio.to_thread(deployment.up, "tokens", "owner")  # as at the next start
    assert _identities(deployment) == before
    assert set(deployment.down().values()) == {0}


async def _through(deployment: Deployment, site: ImageSite) -> str:
    """Submit a gallery as a spider outside does, with the authority's certificate alone; return its draft."""
    _cli(deployment, "brands", "add", "Maison")
    key = _cli(deployment, "spiders", "add", "vogue")
    gallery = gallery_pb2.Gallery(
        kind=gallery_pb2.GALLERY_KIND_RUNWAY, title="Show", source="vogue", source_url="https://v/1",
        brand="Maison", season_code="Fall 2026 Ready-to-Wear",
        images=[gallery_pb2.GalleryImage(url=f"{site.origin}/photos/rocket.jpg", position=1)],
    )  # fmt: skip
    roots = (deployment.volume("cli-identity") / "authority.pem").read_bytes()
    async with AsyncSpiderClient(
        deployment.address("ingest", "7101"),
        key_id=key["key_id"],
        secret=key["secret"],
        credentials=grpc.ssl_channel_credentials(roots),
    ) as spider:
        job_id = (await spider.submit(gallery)).job_id

    async def draft_id() -> str:
        return str((await asyncio.to_thread(_cli, deployment, "jobs", job_id)).get("draft_id", ""))

    return await eventually(draft_id, 60)


async def _nobody_else(deployment: Deployment) -> None:
    """Try the doors with less than they ask for."""
    identity = deployment.volume("ingest-worker-identity")
    roots, token = identity / "authority.pem", identity / "token"
    pair = {"tls_cert": identity / "certificate.pem", "tls_key": identity / "key.pem"}
    people, processes = deployment.address("task", "7104"), deployment.address("task", "7204")
    whole = TransportSettings(tls_ca=roots, token_file=token, **pair)
    assert await _asked(processes, whole) is grpc.StatusCode.OK
    stolen = TransportSettings(tls_ca=roots, token_file=token)
    assert await _asked(people, stolen) == "CERTIFICATE_MISSING"
    assert await _asked(processes, stolen) is grpc.StatusCode.UNAVAILABLE
    assert await _asked(processes, TransportSettings(tls_ca=roots, **pair)) == "TOKEN_MISSING"
    assert await _asked(people, TransportSettings.loopback_only()) is grpc.StatusCode.UNAVAILABLE


async def _asked(address: str, transport: TransportSettings) -> str | grpc.StatusCode:
    """Return what a call comes to: the reason of its refusal, or its code."""
    channel = connect(address, transport=transport)
    try:
        stub = task_service_pb2_grpc.TaskServiceStub(channel)
        await stub.ListTasks(task_service_pb2.ListTasksRequest(), timeout=10)
    except grpc.aio.AioRpcError as error:
        return reason_of(error) or error.code()
    finally:
        await channel.close()
    return grpc.StatusCode.OK


def _cli(deployment: Deployment, *arguments: str) -> Any:
    """Run `docker compose run --rm cli …` and return its JSON."""
    done = run([*arguments, "--json"], folder=ROOT, environment=deployment.environment("cli"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _identities(deployment: Deployment) -> dict[str, bytes]:
    names = ("authority", "tokens", "database", "task-identity", "ingest-worker-identity", "cli-identity")
    files = (file for name in names for file in deployment.volume(name).iterdir() if file.name != ".lock")
    return {str(file): file.read_bytes() for file in files}


_CALLS = ("tasks", "drafts runway", "materials list", "jobs")  # one of each context

_LOCAL = """
FRONTROW_DATABASE_URL='{database}'
FRONTROW_OBJECT_STORE={folder}/objects
FRONTROW_INGEST_SEALING_KEY={key}
FRONTROW_INGEST_WORKER_ALLOW_LOOPBACK=true
FRONTROW_INGEST_WORKER_LISTEN=127.0.0.1:{ports[0]}
FRONTROW_ASR_WORKER_LISTEN=127.0.0.1:{ports[1]}
FRONTROW_SLICING_LISTEN=127.0.0.1:{ports[2]}
"""


def _docs(heading: str) -> list[str]:
    """Return the commands below a heading of docs/deployment.md, up to the next one, block by block."""
    text = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    part = text.partition(f"\n{heading}\n")[2].partition("\n##")[0]
    return re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)


async def test_the_commands_of_the_docs_lead_to_a_draft(
    database: ExternalPostgres, site: ImageSite, tmp_path: Path
) -> None:
    for entry in ROOT.iterdir():
        if entry.name not in (".git", "deployment", "var"):
            (tmp_path / entry.name).symlink_to(entry)
    ports = free_ports(11)
    moved = dict(zip(("7101", "7102", "7103", "7104", "7201", "7202", "7203", "7204"), ports, strict=False))
    mine = _LOCAL.format(database=database.url(), folder=tmp_path, key="5e" * 32, ports=ports[8:])
    identities, start, key, submit = _docs("## Without containers")
    move = ";".join(f"s/:{was}$/:{here}/" for was, here in moved.items())
    script = "\n".join((
        "set -eu",
        "trap 'kill $(jobs -p); wait' EXIT",
        identities,
        f"sed -i '{move}' deployment/settings.env",
        f"cat >> deployment/settings.env <<'END'{mine}END",
        f"echo \"FRONTROW_DATABASE_URL='{database.owner_url}'\" > deployment/owner.env",
        start,
        key,
        f"sed -i 's|https://assets.example/look-1.jpg|{site.origin}/photos/rocket.jpg|' deployment/show.json",
        submit,
        *(f"deploy/run cli {words} --json" for words in _CALLS),
        "touch deployment/all-answered; read -r _",
    ))  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *command(["bash", "-c", script], signal=signal.SIGTERM),
        cwd=tmp_path,
        env=environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}", COLUMNS="200"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    folder = tmp_path / "deployment"
    await eventually(lambda: (folder / "all-answered").exists() or process.returncode is not None, 240)
    if (folder / "all-answered").exists():
        await database.want_contexts_apart({name: folder / "pki" / name / OWN_FILE for name in CONTEXTS})
    out, err = (text.decode() for text in await process.communicate(b"\n"))
    assert process.returncode == 0, f"{out}\n{err}\n{_logs(folder)}"
    assert "Acne Studios Fall 2026" in out


def _logs(folder: Path) -> dict[str, str]:
    return {log.name: log.read_text()[-1000:] for log in folder.glob("*.log")}
