"""Runs of the ASR worker that end badly: unusable files, no speech, a late failure, a cancellation."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from frontrow.asr.v1 import live_material_service_pb2 as pb
from frontrow.task.v1 import task_pb2

from libs.common.testing import eventually
from services.asr.media import ffmpeg
from services.asr.worker.engine import FasterWhisper
from services.asr.worker.mount import AsrWorker
from services.asr.worker.speech import OnShare, Topic, Utterance
from services.asr.worker.topics import LocalTopics
from tests.integration.asr.bed import COMPLETED, FAILED, SAMPLES, Bed
from tests.integration.asr.workers import (
    ENGINE_SECONDS,
    Counting,
    has_stage,
    has_status,
    stages,
    worker_settings,
)

pytestmark = pytest.mark.timeout(500)


async def test_files_that_cannot_be_used_fail_with_their_own_reason_before_any_engine(
    bed: Bed, counting: Counting
) -> None:
    reasons = {}
    for name in ("noaudio.mp4", "trunc_nomoov.mp4"):
        content = await asyncio.to_thread((SAMPLES / "edge" / name).read_bytes)
        material = await bed.material(content)
        reasons[name] = (await bed.until(material.id, FAILED, seconds=30)).asr_error_reason
        await eventually(partial(has_stage, bed, material.id, "/1/999_fail.json"))
        await eventually(partial(has_status, bed, material, task_pb2.TASK_STATUS_FAILED))
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
    await eventually(partial(has_status, bed, material, task_pb2.TASK_STATUS_FAILED))


async def test_a_late_stages_failure_keeps_the_transcript_and_the_retry_needs_no_engine(
    bed: Bed, engine: FasterWhisper, shortest: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[int] = []
    local = LocalTopics.topics

    async def fails_once(
        self: LocalTopics, utterances: Sequence[Utterance], on_share: OnShare
    ) -> tuple[list[Topic], str]:
        if not failures:
            failures.append(len(utterances))
            raise RuntimeError("the model of the topics is ill")
        return await local(self, utterances, on_share)

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


async def test_a_cancelled_run_stops_its_engine_and_ends_as_cancelled(
    bed: Bed, counting: Counting, engine: FasterWhisper, shortest: bytes
) -> None:
    material = await bed.material(shortest)
    await eventually(lambda: len(counting.spans) == 1, 60)
    await bed.materials.CancelTranscription(pb.CancelTranscriptionRequest(live_material_id=material.id))
    failed = await bed.until(material.id, FAILED, seconds=60)
    assert failed.asr_error_reason == "CANCELLED"

    await eventually(partial(has_status, bed, material, task_pb2.TASK_STATUS_CANCELLED), 30)
