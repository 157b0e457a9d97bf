"""The slicing worker against real task and asr servers: from a project to clips that play."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio
import pytest
from frontrow.asr.v1 import clip_pb2, video_project_pb2, video_project_service_pb2
from frontrow.task.v1 import task_pb2, task_service_pb2, task_service_pb2_grpc

from libs.common.client import connect, reading, reason_of
from libs.common.loops import Loop
from libs.common.objects import open_store
from libs.common.settings import CommonSettings
from libs.common.testing import eventually
from services.asr.media import ffmpeg
from services.asr.mount import mount as mount_asr
from services.asr.settings import AsrSettings
from services.asr.slicing.mount import build_worker
from services.asr.slicing.settings import SlicingWorkerSettings
from services.task.mount import mount as mount_task
from services.task.settings import TaskSettings
from tests.conftest import Serve
from tests.integration.media.recordings import frame_numbers
from tests.integration.slicing.conftest import RECORDING_MS, Asr, common_settings
from tests.integration.slicing.runs import begin, clip, save

ROOT = Path(__file__).resolve().parents[3]
FRAME_MS = 40
SIX_CLIPS = "央行 | 不粘锅 | 玻璃锅盖 | 错题本 | 身份证 | 再见"


@dataclass
class Chain:
    """A task server, an asr server, and what a worker needs to find them."""

    asr: Asr
    tasks: task_service_pb2_grpc.TaskServiceStub
    common: CommonSettings
    scratch: Path

    def worker(self) -> SlicingLoop:
        return SlicingLoop(build_worker(SlicingWorkerSettings(scratch=self.scratch), self.common))

    async def finished(self, project: video_project_pb2.VideoProject) -> video_project_pb2.VideoProject:
        ended = (
            video_project_pb2.VIDEO_PROJECT_STATUS_COMPLETED,
            video_project_pb2.VIDEO_PROJECT_STATUS_FAILED,
        )

        async def look() -> video_project_pb2.VideoProject | None:
            found = await self.asr.reread(project)
            return found if found.status in ended else None

        found = await eventually(look, timeout_seconds=60)
        assert found is not None
        return found

    async def task(self, project: video_project_pb2.VideoProject) -> task_pb2.Task:
        request = task_service_pb2.GetTaskRequest(task_id=project.slice_task_id)
        return (await self.tasks.GetTask(request)).task

    async def task_in(self, project: video_project_pb2.VideoProject, *statuses: int) -> None:
        async def look() -> bool:
            try:
                return (await self.task(project)).status in statuses
            except grpc.aio.AioRpcError:
                return False  # the relay hasn't brought it yet

        await eventually(look, timeout_seconds=20)

    async def clips(self, project: video_project_pb2.VideoProject) -> list[clip_pb2.Clip]:
        request = video_project_service_pb2.ListClipsRequest(video_project_id=project.id)
        return list((await self.asr.projects.ListClips(request)).clips)

    async def stored(self, project: video_project_pb2.VideoProject) -> list[str]:
        return sorted([key async for key in self.asr.store.list(f"clips/{project.id}/")])

    async def download(self, path: Path, **target: object) -> Path:
        request = video_project_service_pb2.DownloadMediaRequest(**target)
        async with reading(self.asr.projects.DownloadMedia(request)) as answers:
            content = b"".join([answer.chunk async for answer in answers])
        await asyncio.to_thread(path.write_bytes, content)
        return path


class SlicingLoop:
    """A worker that runs inside a block."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    async def __aenter__(self) -> None:
        await self._loop.start()

    async def __aexit__(self, *exc: object) -> None:
        await self._loop.stop()


@pytest.fixture
async def chain(serve: Serve, database_url: str, tmp_path: Path) -> AsyncIterator[Chain]:
    common = common_settings(database_url, tmp_path / "objects")
    task_settings = TaskSettings(lease_seconds_by_type={"ai_slice": 2.0}, sweep_interval_seconds=0.2)
    task_address = await serve("task", await mount_task(task_settings, common))
    common = common_settings(database_url, tmp_path / "objects", task_address=task_address)
    asr_settings = AsrSettings(follow_interval_seconds=0.2)
    asr_address = await serve("asr", await mount_asr(asr_settings, common))
    common = common_settings(
        database_url, tmp_path / "objects", task_address=task_address, asr_address=asr_address
    )
    channel = connect(task_address)
    asr = Asr(asr_address, open_store(common.store))
    yield Chain(asr, task_service_pb2_grpc.TaskServiceStub(channel), common, tmp_path / "scratch")
    await channel.close()
    await asr.channel.close()


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


async def test_a_silent_worker_is_replaced_and_refused_when_it_comes_back(chain: Chain) -> None:
    project = await chain.asr.project((await chain.asr.transcribed("zombie")).id, span_end_ms=30_000)
    await chain.task_in(project, task_pb2.TASK_STATUS_PENDING)
    claim = task_service_pb2.ClaimTasksRequest(worker_id="zombie", types=["ai_slice"], max_tasks=1)
    claimed = (await chain.tasks.ClaimTasks(claim)).tasks[0]
    await begin(chain.asr, project, version=claimed.version)
    async with chain.worker():
        done = await chain.finished(project)
    before = await chain.clips(project)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await save(chain.asr, project, [clip(project, 0)], version=claimed.version)
    assert reason_of(caught.value) == "LEASE_LOST"
    assert await chain.clips(project) == before
    assert await chain.asr.reread(project) == done


async def start_process(chain: Chain) -> asyncio.subprocess.Process:
    """Start a worker as a process of its own."""
    environment = os.environ | {
        "FRONTROW_TASK_ADDRESS": chain.common.peers.task_address,
        "FRONTROW_ASR_ADDRESS": chain.common.peers.asr_address,
        "FRONTROW_OBJECT_STORE": chain.common.store.object_store,
        "FRONTROW_SLICING_SCRATCH": str(chain.scratch),
        "FRONTROW_SLICING_LISTEN": "127.0.0.1:0",
    }
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.asr.slicing"), cwd=ROOT, env=environment
    )


async def test_a_killed_worker_is_resumed_by_another_and_no_clip_is_doubled(chain: Chain) -> None:
    project = await chain.asr.project((await chain.asr.transcribed("killed")).id, keywords=SIX_CLIPS)
    process = await start_process(chain)

    async def one_clip() -> bool:
        return any(key.endswith(".mp4") for key in await chain.stored(project))

    await eventually(one_clip, timeout_seconds=60)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    kept = {key: await chain.asr.store.head(key) for key in await chain.stored(project)}
    assert (await chain.asr.reread(project)).status == video_project_pb2.VIDEO_PROJECT_STATUS_PROCESSING
    async with chain.worker():
        done = await chain.finished(project)
    assert done.status == video_project_pb2.VIDEO_PROJECT_STATUS_COMPLETED
    clips = await chain.clips(project)
    assert [c.position for c in clips] == [0, 1, 2, 3, 4, 5]
    stored = await chain.stored(project)
    assert stored == sorted([c.media_key for c in clips] + [c.thumbnail_key for c in clips])
    assert set(kept) <= set(stored)


async def test_a_worker_that_is_told_to_stop_gives_its_task_back(chain: Chain) -> None:
    project = await chain.asr.project((await chain.asr.transcribed("stopped")).id, keywords=SIX_CLIPS)
    process = await start_process(chain)
    await chain.task_in(project, task_pb2.TASK_STATUS_PROCESSING)
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 30) == 0
    ended = (task_pb2.TASK_STATUS_PENDING, task_pb2.TASK_STATUS_COMPLETED)
    assert (await chain.task(project)).status in ended
    async with chain.worker():
        assert (await chain.finished(project)).clip_count == 6


async def test_a_cancelled_task_stops_the_run_and_fails_the_project(chain: Chain) -> None:
    project = await chain.asr.project((await chain.asr.transcribed("cancelled")).id)
    async with chain.worker():
        await chain.task_in(project, task_pb2.TASK_STATUS_PROCESSING)
        await chain.tasks.CancelTask(task_service_pb2.CancelTaskRequest(task_id=project.slice_task_id))
        done = await chain.finished(project)
    assert (done.status, done.error_reason) == (video_project_pb2.VIDEO_PROJECT_STATUS_FAILED, "CANCELLED")
    assert await chain.clips(project) == []


async def test_a_deleted_pending_project_leaves_a_cancelled_task(chain: Chain) -> None:
    project = await chain.asr.project((await chain.asr.transcribed("deleted-task")).id)
    request = video_project_service_pb2.DeleteVideoProjectRequest(video_project_id=project.id)
    await chain.asr.projects.DeleteVideoProject(request)
    await chain.task_in(project, task_pb2.TASK_STATUS_CANCELLED)


async def test_a_full_disk_is_waited_out_and_burns_no_attempt(
    chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, full = ffmpeg.find(), tmp_path / "full"
    program = tmp_path / "ffmpeg"
    complaint = "echo 'Error writing trailer: No space left on device' >&2; exit 228"
    full.touch()
    program.write_text(f'#!/bin/sh\n[ -e "{full}" ] && {{ {complaint}; }}\nexec "{real}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(ffmpeg, "find", lambda: str(program))
    project = await chain.asr.project((await chain.asr.transcribed("full")).id, keywords="再见 | 央行")
    async with chain.worker():

        async def tried_twice() -> bool:
            try:
                return (await chain.task(project)).version >= 4
            except grpc.aio.AioRpcError:
                return False

        await eventually(tried_twice, timeout_seconds=30)
        assert await chain.stored(project) == []
        full.unlink()
        done = await chain.finished(project)
        await chain.task_in(project, task_pb2.TASK_STATUS_COMPLETED)
    assert done.clip_count == 2
    assert (await chain.task(project)).attempt == 1
