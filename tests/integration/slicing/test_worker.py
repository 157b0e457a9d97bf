"""The slicing worker against real task and asr servers: from a project to clips that play."""

from __future__ import annotations

import asyncio
from pathlib import Path

from frontrow.asr.v1 import video_project_pb2, video_project_service_pb2
from frontrow.task.v1 import task_pb2

from tests.integration.media.recordings import frame_numbers
from tests.integration.slicing.asr_server import RECORDING_MS
from tests.integration.slicing.chain import Chain

FRAME_MS = 40


async def test_a_project_becomes_playable_clips_that_begin_at_the_right_frame(
    chain: Chain, tmp_path: Path
) -> None:
    material = await chain.asr.transcribed("whole-chain")
    project = await chain.asr.project(material.id, span_start_ms=26_000, span_end_ms=45_000)
    async with chain.worker():
        done = await chain.finished(project)
        await chain.task_in(project, task_pb2.TASK_STATUS_COMPLETED)
    assert (done.status, done.error_message) == (video_project_pb2.VIDEO_PROJECT_STATUS_COMPLETED, "")
    assert done.clips_source == "topics"
    clips = await chain.clips(project)
    assert [c.title for c in clips] == ["利率和债券", "三层钢不粘锅"]
    for found in clips:
        path = await chain.download(tmp_path / "clip.mp4", clip_id=found.id)
        numbers = await asyncio.to_thread(frame_numbers, path)
        assert numbers[0] == found.start_ms // FRAME_MS
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert abs(numbers[-1] - (found.end_ms - 1) // FRAME_MS) <= 1
        assert found.size_bytes == path.stat().st_size
        assert 2 <= len(found.title) <= 12
        assert 1 <= len(found.description) <= 128
        assert 2 <= len(found.topics) <= 6
        assert (found.width, found.height) == (416, 234)
        still = await chain.download(tmp_path / "still.jpg", thumbnail_clip_id=found.id)
        assert still.read_bytes()[:3] == b"\xff\xd8\xff"
    assert len(await chain.stored(project)) == 2 * len(clips)
    assert list(chain.scratch.iterdir()) == []
    assert (await chain.task(project)).progress == 100


async def test_keywords_give_clips_of_the_sentences_that_hold_them(chain: Chain) -> None:
    material = await chain.asr.transcribed("by-keywords")
    project = await chain.asr.project(material.id, keywords="玻璃锅盖 | 早上八点 | 再见")
    async with chain.worker():
        done = await chain.finished(project)
    assert done.clips_source == "keywords"
    first, last = await chain.clips(project)
    assert first.start_ms <= 58_400 < 59_975 <= first.end_ms
    assert last.end_ms <= RECORDING_MS


async def test_no_match_is_a_failure_with_its_reason_and_leaves_no_clip(chain: Chain) -> None:
    material = await chain.asr.transcribed("no-match")
    project = await chain.asr.project(material.id, keywords="手表 珠宝")
    async with chain.worker():
        done = await chain.finished(project)
        await chain.task_in(project, task_pb2.TASK_STATUS_FAILED)
    assert (done.status, done.error_reason) == (video_project_pb2.VIDEO_PROJECT_STATUS_FAILED, "NO_MATCH")
    assert "手表 珠宝" in done.error_message
    assert await chain.clips(project) == []
    assert await chain.stored(project) == []
    assert (await chain.task(project)).error_message.startswith("NO_MATCH")


async def test_a_recording_that_is_gone_fails_with_its_reason(chain: Chain) -> None:
    material = await chain.asr.transcribed("gone")
    await chain.asr.store.delete(f"recordings/{material.id}/canonical-1.mp4")
    project = await chain.asr.project(material.id)
    async with chain.worker():
        done = await chain.finished(project)
    assert done.error_reason == "RECORDING_MISSING"


async def test_a_recording_of_noise_fails_with_the_reason_of_the_file(chain: Chain) -> None:
    material = await chain.asr.upload("noise", b"noise")
    await chain.asr.store.put_bytes("recordings/noise.mp4", b"\x00\x01noise" * 500)
    await chain.asr.transcribe(material, canonical_key="recordings/noise.mp4")
    project = await chain.asr.project(material.id)
    async with chain.worker():
        done = await chain.finished(project)
    assert done.error_reason == "NOT_MEDIA"


async def test_a_deleted_pending_project_leaves_a_cancelled_task(chain: Chain) -> None:
    project = await chain.asr.project((await chain.asr.transcribed("deleted-task")).id)
    request = video_project_service_pb2.DeleteVideoProjectRequest(video_project_id=project.id)
    await chain.asr.projects.DeleteVideoProject(request)
    await chain.task_in(project, task_pb2.TASK_STATUS_CANCELLED)
