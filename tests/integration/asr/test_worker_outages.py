"""Trouble around a run is not the recording's: what is charged, what is given back, and what stays behind."""

import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from frontrow.asr.v1 import live_material_service_pb2 as pb
from frontrow.task.v1 import queue_pb2, task_service_pb2

from libs.common.objects import local as local_store
from libs.common.objects.local import LocalStore
from libs.common.testing import eventually
from services.asr.media import ffmpeg
from services.asr.media.errors import DiskFull
from services.asr.worker.engine import EngineFailed, EngineUnreachable
from services.asr.worker.failures import NoSpeech
from services.asr.worker.mount import AsrWorker
from services.asr.worker.peers import AsrPeer
from services.asr.worker.run import Transcriber
from tests.integration.asr.bed import COMPLETED, FAILED, PENDING, Bed
from tests.integration.asr.scripted_engine import Scripted
from tests.integration.asr.workers import finished, has_stage, stages, worker_settings

pytestmark = pytest.mark.timeout(120)


@asynccontextmanager
async def working(bed: Bed, engine: Scripted, scratch: Path, **settings: object) -> AsyncIterator[None]:
    made = worker_settings(scratch).model_copy(update=settings)
    worker = AsrWorker(made, bed.common, engine=engine)
    await worker.start()
    try:
        yield
    finally:
        await worker.stop()


async def runs_of(bed: Bed, task_id: str) -> tuple[int, Sequence[queue_pb2.TaskRun]]:
    answer = await bed.tasks.ExplainTask(task_service_pb2.ExplainTaskRequest(task_id=task_id))
    task = (await bed.tasks.GetTask(task_service_pb2.GetTaskRequest(task_id=task_id))).task
    return task.attempt, answer.runs


async def pause(bed: Bed, *, paused: bool) -> None:
    policy = queue_pb2.QueuePolicy(paused=paused)
    request = task_service_pb2.SetQueuePolicyRequest(type="asr", policy=policy)
    request.update_mask.paths.append("paused")
    await bed.tasks.SetQueuePolicy(request)


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (EngineUnreachable("nobody listens"), 1),
        (OSError(errno.ENOSPC, "no room"), 1),
        (OSError(errno.EDQUOT, "no room of yours"), 1),
        (OSError(errno.EIO, "the disk is ill"), 1),
        (OSError(errno.EINVAL, "what a name"), 2),
        (FileNotFoundError(errno.ENOENT, "no such file"), 2),
        (EngineFailed("it crashed"), 2),
    ],
)
async def test_only_trouble_of_the_machine_and_of_its_peers_is_not_charged(
    bed: Bed, shortest: bytes, tmp_path: Path, error: Exception, attempts: int
) -> None:
    engine = Scripted([error])
    async with working(bed, engine, tmp_path / "scratch"):
        material = await bed.material(shortest)
        await bed.until(material.id, COMPLETED)
        await eventually(partial(finished, bed, material))
    charged, _ = await runs_of(bed, material.asr_task_id)
    assert (engine.calls, charged) == (2, attempts)


@pytest.mark.parametrize(
    ("changed", "calls"),
    [({}, 1), ({"language": "en"}, 2), ({"initial_prompt": "央行"}, 2), ({"beam_size": 2}, 2)],
)
async def test_a_part_that_was_heard_with_other_settings_is_made_anew(
    bed: Bed,
    shortest: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, object],
    calls: int,
) -> None:
    engine = Scripted()

    async def nobody_speaks(*_: object) -> object:
        raise NoSpeech("once")

    with monkeypatch.context() as patched:
        patched.setattr(Transcriber, "_post_process", nobody_speaks)
        async with working(bed, engine, tmp_path / "scratch"):
            material = await bed.material(shortest)
            await bed.until(material.id, FAILED)
    async with working(bed, engine, tmp_path / "scratch", **changed):
        await bed.materials.ResetASRToPending(pb.ResetASRToPendingRequest(live_material_id=material.id))
        await bed.until(material.id, COMPLETED)
    assert engine.calls == calls


async def test_a_disk_that_fills_up_at_the_last_step_leaves_no_half_object_and_the_retry_goes_on(
    bed: Bed, shortest: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, sync, full = Scripted(), local_store._sync, [True]

    def sync_on_a_full_disk(path: Path) -> None:
        if full and path.stat().st_size > len(shortest) // 2:
            full.clear()
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(path)

    material = await bed.material(shortest)
    monkeypatch.setattr(local_store, "_sync", sync_on_a_full_disk)
    async with working(bed, engine, tmp_path / "scratch"):
        await bed.until(material.id, COMPLETED)
        await eventually(partial(finished, bed, material))
    charged, _ = await runs_of(bed, material.asr_task_id)
    assert (full, charged, engine.calls) == ([], 1, 1)
    assert "/1/999_fail.json" in await stages(bed, material.id)
    record = (await bed.store.get_bytes(f"staging/asr/{material.id}/1/999_fail.json")).decode()
    assert "STORE_UNAVAILABLE" in record
    assert "No space left on device" in record
    assert isinstance(bed.store, LocalStore)
    assert await bed.store.sweep_abandoned(older_than_seconds=-60) == 0


async def test_ffmpeg_on_a_full_disk_is_the_machines_trouble() -> None:
    tone = ("-f", "lavfi", "-i", "sine=duration=3", "-f", "wav", "file:/dev/full")
    with pytest.raises(DiskFull, match="the scratch folder's disk is full"):
        await ffmpeg.run(tone, timeout_seconds=30)


async def test_no_progress_report_is_under_way_while_the_result_is_stored(
    bed: Bed, shortest: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, seen = set[int](), list[set[int]]()
    progress, complete = AsrPeer.progress, AsrPeer.complete

    async def slowly(self: AsrPeer, material_id: str, asr_version: int, percent: int) -> None:
        under_way.add(percent)
        try:
            await progress(self, material_id, asr_version, percent)
        finally:
            under_way.discard(percent)

    async def watched(self: AsrPeer, *arguments: object) -> None:
        seen.append(set(under_way))
        await complete(self, *arguments)  # type: ignore[arg-type]

    original = Transcriber._post_process

    async def reports_last(self: Transcriber, run: object, *rest: object) -> object:
        result = await original(self, run, *rest)  # type: ignore[arg-type]
        run.progress.report(99)  # type: ignore[attr-defined]
        return result

    monkeypatch.setattr(AsrPeer, "progress", slowly)
    monkeypatch.setattr(AsrPeer, "complete", watched)
    monkeypatch.setattr(Transcriber, "_post_process", reports_last)
    async with working(bed, Scripted(), tmp_path / "scratch"):
        material = await bed.material(shortest)
        await bed.until(material.id, COMPLETED)
        await eventually(partial(finished, bed, material))
    assert seen == [set()]
    assert (await runs_of(bed, material.asr_task_id))[0] == 1


async def test_a_run_over_its_limit_is_stopped_and_says_so_on_the_row_and_in_the_record(
    bed: Bed, shortest: bytes, tmp_path: Path
) -> None:
    engine = Scripted(hang=True)
    async with working(bed, engine, tmp_path / "scratch", run_timeout_seconds=3.0):
        material = await bed.material(shortest)
        await eventually(lambda: engine.calls, 30)
        # the next run would clear what this one says
        await pause(bed, paused=True)
        await eventually(partial(has_stage, bed, material.id, "/1/999_fail.json"), 30)
        again = await bed.until(material.id, PENDING)
    await pause(bed, paused=False)
    record = (await bed.store.get_bytes(f"staging/asr/{material.id}/1/999_fail.json")).decode()
    assert "RUN_TIMEOUT" in record
    assert engine.cancelled >= 1
    assert "longer than 3 seconds" in record
    assert again.asr_error_reason == "RUN_TIMEOUT"
    assert "longer than 3 seconds" in again.asr_error
