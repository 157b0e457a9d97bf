"""The slicing worker when things go wrong: silence, kill, stop, cancel, a full disk."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from frontrow.asr.v1 import video_project_pb2
from frontrow.task.v1 import task_pb2, task_service_pb2

from libs.common.client import reason_of
from libs.common.testing import eventually
from services.asr.media import cut as cutting
from services.asr.media import ffmpeg, smart
from services.asr.media.errors import FfmpegTimeout
from tests.integration.hanging import hung, kill
from tests.integration.slicing.chain import Chain
from tests.integration.slicing.runs import begin, clip, save

ROOT = Path(__file__).resolve().parents[3]
WORKER = "services.asr.slicing"
SIX_CLIPS = "央行 | 不粘锅 | 玻璃锅盖 | 错题本 | 身份证 | 再见"


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
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", WORKER), cwd=ROOT, env=os.environ | chain.environment()
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


async def test_a_draft_whose_worker_was_killed_is_made_by_the_next_one_of_the_same_clips(
    chain: Chain,
) -> None:
    places = (
        "services.asr.slicing.peers:SlicingPeer.save_clips:1",
        "services.asr.slicing.drafts.make:DraftMaker.make:1",
    )
    material = await chain.asr.transcribed("killed-drafts")
    both = video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE_DRAFT
    projects = [await chain.asr.project(material.id, mode=both, keywords="再见") for _ in places]
    # each takes one of the tasks, whichever
    for process in await asyncio.gather(*(hung(WORKER, place, chain.environment()) for place in places)):
        await kill(process)
    clips = [await chain.clips(project) for project in projects]
    assert [len(found) for found in clips] == [1, 1]
    assert [len(await chain.drafts(project)) for project in projects] in ([0, 1], [1, 0])
    async with chain.worker():
        done = [await chain.finished(project) for project in projects]
        for project in projects:
            await chain.task_in(project, task_pb2.TASK_STATUS_COMPLETED)
    assert [await chain.clips(project) for project in projects] == clips
    for project in done:
        (key,) = await chain.drafts(project)
        task = await chain.task(project)
        assert task.draft_url.endswith(key)
        assert (task.attempt, bool(project.editing_draft_id)) == (2, True)
    assert await asyncio.to_thread(lambda: list(chain.scratch.iterdir())) == []


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


FFMPEG_IS_FULL = "Error writing trailer: No space left on device"
JOIN_IS_FULL = "av.error.OSError: [Errno 28] No space left on device: 'file:/var/lib/clip.mp4'"


def complaining(real: str, complaint: str, while_there: Path) -> str:
    """Put a program before a real one that complains as long as a file is there; returns its path."""
    program = while_there.with_name(Path(real).name)
    complain = f'echo "{complaint}" >&2; exit 1'
    program.write_text(f'#!/bin/sh\n[ -e "{while_there}" ] && {{ {complain}; }}\nexec "{real}" "$@"\n')
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("mode", ["EXACT", "FAST"])
async def test_a_full_disk_is_waited_out_and_burns_no_attempt(
    chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    full = tmp_path / "full"
    full.touch()
    program = complaining(ffmpeg.find(), FFMPEG_IS_FULL, full)
    monkeypatch.setattr(ffmpeg, "find", lambda: program)
    monkeypatch.setattr(smart, "PYTHON", complaining(smart.PYTHON, JOIN_IS_FULL, full))
    cut_mode = video_project_pb2.CutMode.Value(f"CUT_MODE_{mode}")
    material = await chain.asr.transcribed(f"full-{mode}")
    project = await chain.asr.project(material.id, keywords="再见 | 央行", cut_mode=cut_mode)
    async with chain.worker():

        async def tried_twice() -> bool:
            try:
                return (await chain.task(project)).version >= 4
            except grpc.aio.AioRpcError:
                return False

        await eventually(tried_twice, timeout_seconds=30)
        assert await chain.stored(project) == []

        async def told() -> str:
            found = await chain.asr.reread(project)
            return found.error_message if found.error_reason == "DISK_FULL" else ""

        message = await eventually(told, timeout_seconds=20)
        assert "No space left on device" in message
        full.unlink()
        done = await chain.finished(project)
        await chain.task_in(project, task_pb2.TASK_STATUS_COMPLETED)
    assert (done.clip_count, done.error_reason) == (2, "")
    assert (await chain.task(project)).attempt == 1


@pytest.mark.parametrize(
    ("error", "reason", "said"),
    [
        (FfmpegTimeout("stopped after 1800 s"), "FFMPEG_TIMEOUT", "stopped after 1800 s"),
        (ValueError("a \x00 and a \ud800"), "SLICING_FAILED", "a \ufffd and a \ufffd"),
    ],
)
async def test_a_failure_that_may_pass_is_told_while_the_task_waits_for_its_next_attempt(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str, said: str
) -> None:
    real, broken = cutting.cut, [True]

    async def cut(*arguments: Any, **named: Any) -> cutting.Cut:
        if broken[0]:
            raise error
        return await real(*arguments, **named)

    monkeypatch.setattr(cutting, "cut", cut)
    project = await chain.asr.project((await chain.asr.transcribed(reason)).id, keywords="再见")
    async with chain.worker():

        async def told() -> bool:
            found = await chain.asr.reread(project)
            waits = found.status != video_project_pb2.VIDEO_PROJECT_STATUS_FAILED
            return waits and (found.error_reason, said in found.error_message) == (reason, True)

        await eventually(told, timeout_seconds=30)
        broken[0] = False
        done = await chain.finished(project)
        await chain.task_in(project, task_pb2.TASK_STATUS_COMPLETED)
    assert (done.status, done.error_reason, done.error_message) == (
        video_project_pb2.VIDEO_PROJECT_STATUS_COMPLETED, "", "",
    )  # fmt: skip
    assert (await chain.task(project)).attempt >= 2
