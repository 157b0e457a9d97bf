"""Recordings by URL: fetched by the run, resumed where a transfer or a run broke off, else refused."""

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import grpc
import pytest
from frontrow.asr.v1 import live_material_pb2
from frontrow.asr.v1 import live_material_service_pb2 as pb
from frontrow.task.v1 import task_pb2, task_service_pb2

from libs.common.testing import eventually
from services.asr.worker.fetch_settings import FetchSettings
from services.asr.worker.mount import AsrWorker
from tests.integration.asr.bed import COMPLETED, FAILED, PENDING, Bed, refusal
from tests.integration.asr.scripted_engine import Scripted
from tests.integration.asr.web import Answer, cut_after, says, sha1_of, site
from tests.integration.asr.workers import finished, has_status, worker_settings

pytestmark = pytest.mark.timeout(120)
PIECE = 1 << 16


def fetch_settings(**more: object) -> FetchSettings:
    given = {
        "allow_loopback": True,
        "piece_bytes": PIECE,
        "first_pause_seconds": 0,
        "read_timeout_seconds": 2,
    }
    return FetchSettings.model_validate(given | more)


@asynccontextmanager
async def working(bed: Bed, scratch: Path, **fetch: object) -> AsyncIterator[Scripted]:
    engine = Scripted()
    settings = worker_settings(scratch).model_copy(update={"fetch": fetch_settings(**fetch)})
    worker = AsrWorker(settings, bed.common, engine=engine)
    await worker.start()
    try:
        yield engine
    finally:
        await worker.stop()


async def created(bed: Bed, url: str, **more: object) -> live_material_pb2.LiveMaterial:
    request = pb.CreateLiveMaterialRequest(name=f"网址 {uuid4()}", media_url=url, **more)  # type: ignore[arg-type]
    return (await bed.materials.CreateLiveMaterial(request)).live_material


async def attempts_of(bed: Bed, material: live_material_pb2.LiveMaterial) -> int:
    request = task_service_pb2.GetTaskRequest(task_id=material.asr_task_id)
    return int((await bed.tasks.GetTask(request)).task.attempt)


async def keys(bed: Bed, prefix: str) -> list[str]:
    return sorted([key async for key in bed.store.list(prefix)])


async def test_a_recording_is_fetched_hashed_and_transcribed_and_its_pieces_are_removed(
    bed: Bed, short: bytes, tmp_path: Path
) -> None:
    assert len(short) > 2 * PIECE
    async with site(short) as served, working(bed, tmp_path):
        material = await created(bed, served.url)
        assert (material.media_url, material.file_name, material.size_bytes) == (served.url, "录播.mp4", 0)
        done = await bed.until(material.id, COMPLETED)
    assert (done.size_bytes, done.sha1, served.ranges) == (len(short), sha1_of(short), [""])
    record = (await bed.store.get_bytes(f"staging/asr/{material.id}/1/001_prepare.json")).decode()
    assert sha1_of(short) in record
    assert "secret" not in record
    originals = [key for key in await keys(bed, "recordings") if "/original-" in key]
    stored = [await bed.store.get_bytes(key) for key in originals]
    assert short in stored

    async def no_pieces() -> bool:
        return await keys(bed, "uploads") == []

    await eventually(no_pieces)


async def test_a_broken_transfer_goes_on_where_it_broke(bed: Bed, short: bytes, tmp_path: Path) -> None:
    # a server that falls silent: what it sent before has been read by then
    answers = [cut_after(100_000, stay=True), says(503), cut_after(50_000, stay=True), cut_after(1)]
    async with site(short, answers) as served, working(bed, tmp_path, read_timeout_seconds=0.5):
        done = await bed.until((await created(bed, served.url)).id, COMPLETED)
    assert done.sha1 == sha1_of(short)
    starts = [int(asked.removeprefix("bytes=").removesuffix("-") or 0) for asked in served.ranges]
    assert starts[0] == 0
    assert starts[1:] == sorted(starts[1:])
    assert starts[-1] > 100_000


async def test_another_run_goes_on_behind_the_pieces_of_a_worker_that_is_gone(
    bed: Bed, short: bytes, tmp_path: Path
) -> None:
    async with site(short, [cut_after(2 * PIECE + 1000, stay=True)]) as served:
        async with working(bed, tmp_path / "a", read_timeout_seconds=60):
            material = await created(bed, served.url)

            async def has_pieces() -> bool:
                return len(await keys(bed, "uploads")) >= 1

            await eventually(has_pieces)
        await bed.until(material.id, PENDING)
        async with working(bed, tmp_path / "b"):
            done = await bed.until(material.id, COMPLETED)
    assert done.sha1 == sha1_of(short)
    assert len(served.ranges) == 2
    assert int(served.ranges[1].removeprefix("bytes=").removesuffix("-")) >= PIECE


async def test_a_recording_that_changed_meanwhile_is_never_joined_to_what_came_before(
    bed: Bed, short: bytes, shortest: bytes, tmp_path: Path
) -> None:
    async def changed(request: object, made: object) -> object:
        made.content, made.etag = shortest, '"v2"'  # type: ignore[attr-defined]
        return await says(503)(request, made)  # type: ignore[arg-type]

    async with site(short, [cut_after(100_000), changed]) as served, working(bed, tmp_path):  # type: ignore[list-item]
        done = await bed.until((await created(bed, served.url)).id, COMPLETED)
    assert (done.size_bytes, done.sha1) == (len(shortest), sha1_of(shortest))


async def test_a_server_without_any_word_on_its_bytes_is_asked_for_all_of_them_again(
    bed: Bed, short: bytes, tmp_path: Path
) -> None:
    async with site(short, [cut_after(100_000)]) as served, working(bed, tmp_path):
        served.etag = ""
        done = await bed.until((await created(bed, served.url)).id, COMPLETED)
    assert (done.sha1, served.ranges) == (sha1_of(short), ["", ""])


PERMANENT: list[tuple[Sequence[Answer], dict[str, object], str]] = [
    ([says(404)], {}, "HTTP_STATUS"),
    ([says(302, {"Location": "http://169.254.169.254/latest"})], {}, "ADDRESS_BLOCKED"),
    ([says(302, {"Location": "file:///etc/passwd"})], {}, "BAD_REDIRECT"),
    ([says(302, {"Location": "/loop"}), says(302, {"Location": "/loop"})], {}, "REDIRECT_LOOP"),
    ([says(200, {"Content-Encoding": "gzip"}, b"x")], {}, "ENCODING"),
    ([], {"max_bytes": 1000}, "TOO_LARGE"),
    ([says(200, body=b"")], {}, "EMPTY_FILE"),
    ([says(200, {"Content-Type": "text/html"}, b"<html>log in first</html>" * 50)], {}, "NOT_MEDIA"),
]


@pytest.mark.parametrize(("answers", "settings", "reason"), PERMANENT, ids=[case[2] for case in PERMANENT])
async def test_what_can_never_be_used_fails_at_once_with_its_reason(
    bed: Bed,
    shortest: bytes,
    tmp_path: Path,
    answers: Sequence[Answer],
    settings: dict[str, object],
    reason: str,
) -> None:
    async with site(shortest, list(answers)) as served, working(bed, tmp_path, **settings) as engine:
        material = await created(bed, served.url)
        failed = await bed.until(material.id, FAILED)
        await eventually(partial(has_status, bed, material, task_pb2.TASK_STATUS_FAILED))
    assert (failed.asr_error_reason, engine.calls, await attempts_of(bed, material)) == (reason, 0, 1)
    assert "secret" not in failed.asr_error


async def test_an_address_of_this_machine_is_not_fetched(bed: Bed, shortest: bytes, tmp_path: Path) -> None:
    async with site(shortest) as served, working(bed, tmp_path, allow_loopback=False):
        failed = await bed.until((await created(bed, served.url)).id, FAILED)
    assert (failed.asr_error_reason, served.ranges) == ("ADDRESS_BLOCKED", [])


async def test_a_server_that_never_ends_well_uses_the_tries_up(
    bed: Bed, shortest: bytes, tmp_path: Path
) -> None:
    async with site(shortest, [says(500)] * 50) as served, working(bed, tmp_path, attempts=2):
        failed = await bed.until((await created(bed, served.url)).id, FAILED, seconds=30)
    assert failed.asr_error_reason in {"SERVER_BUSY", "ABANDONED"}
    assert len(served.ranges) == 10


async def test_a_host_that_asks_for_a_long_pause_gives_the_task_back_uncharged(
    bed: Bed, shortest: bytes, tmp_path: Path
) -> None:
    busy = says(429, {"Retry-After": "600"})
    async with site(shortest, [busy]) as served, working(bed, tmp_path):
        material = await created(bed, served.url)
        await eventually(lambda: bool(served.ranges))

        async def waits() -> task_pb2.Task:
            request = task_service_pb2.GetTaskRequest(task_id=material.asr_task_id)
            task = (await bed.tasks.GetTask(request)).task
            assert task.status == task_pb2.TASK_STATUS_PENDING
            assert task.version > 0
            return task

        task = await eventually(waits)
    assert task.attempt == 0
    left = task.run_after.ToDatetime(tzinfo=dt.UTC) - dt.datetime.now(dt.UTC)
    assert 500 < left.total_seconds() <= 600


@pytest.mark.parametrize(
    ("url", "upload"),
    [
        ("ftp://host/x.mp4", ""),
        ("//host/x.mp4", ""),
        ("http://", ""),
        ("http://user:word@host/x.mp4", ""),
        ("http://host/a b.mp4", ""),
        ("http://host:99999/x.mp4", ""),
        ("http://[::1", ""),
        ("x" * 2049, ""),
        ("https://host/x.mp4", "0192f0c0-0000-7000-8000-000000000000"),
        ("", ""),
    ],
)
async def test_what_is_no_address_is_refused_at_the_creation(bed: Bed, url: str, upload: str) -> None:
    request = pb.CreateLiveMaterialRequest(name=f"{uuid4()}", media_url=url, upload_id=upload)
    code, _ = await refusal(bed.materials.CreateLiveMaterial(request))
    assert code == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_request_id_makes_one_material_of_an_address(bed: Bed) -> None:
    request = pb.CreateLiveMaterialRequest(
        name=f"{uuid4()}", media_url="https://host/x.mp4", request_id=f"{uuid4()}", skip_transcription=True
    )
    answers = await asyncio.gather(*(bed.materials.CreateLiveMaterial(request) for _ in range(4)))
    assert len({answer.live_material.id for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1
    await bed.materials.DeleteLiveMaterial(
        pb.DeleteLiveMaterialRequest(live_material_id=answers[0].live_material.id)
    )


async def test_a_deleted_material_takes_the_pieces_of_its_recording_along(
    bed: Bed, short: bytes, tmp_path: Path
) -> None:
    async with site(short, [cut_after(2 * PIECE, stay=True)]) as served:
        async with working(bed, tmp_path, read_timeout_seconds=60):
            material = await created(bed, served.url)

            async def has_pieces() -> bool:
                return bool(await keys(bed, "uploads"))

            await eventually(has_pieces)
        await bed.until(material.id, PENDING)
    request = pb.DeleteLiveMaterialRequest(live_material_id=material.id)
    await bed.materials.DeleteLiveMaterial(request)

    async def none_left() -> bool:
        return await keys(bed, "uploads") == []

    await eventually(none_left)
    assert not await finished(bed, material)
