"""The slicing worker's calls, made by hand."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from frontrow.asr.v1 import clip_pb2, slicing_service_pb2, video_project_pb2

from libs.common.client import reading
from tests.integration.slicing.asr_server import Asr


async def begin(
    asr: Asr, project: video_project_pb2.VideoProject, *, version: int = 1, task_id: str = ""
) -> list[slicing_service_pb2.GetSlicingInputResponse]:
    """Begin a run and return all messages of its input."""
    request = slicing_service_pb2.GetSlicingInputRequest(
        video_project_id=project.id, task_id=task_id or project.slice_task_id, task_version=version
    )
    async with reading(asr.slicing.GetSlicingInput(request)) as answers:
        return [answer async for answer in answers]


def clip(project: video_project_pb2.VideoProject, position: int, *, title: str = "片段") -> clip_pb2.Clip:
    """Make a clip as a worker would send it."""
    clip_id = uuid.uuid4()
    return clip_pb2.Clip(
        id=str(clip_id),
        title=title,
        description="说明",
        topics=["债券", "利率"],
        start_ms=position * 1000,
        end_ms=position * 1000 + 900,
        media_key=f"clips/{project.id}/{clip_id}.mp4",
        thumbnail_key=f"clips/{project.id}/{clip_id}.jpg",
        size_bytes=8,
        sha1="0" * 40,
        width=416,
        height=234,
        duration_ms=900,
    )


async def save(
    asr: Asr,
    project: video_project_pb2.VideoProject,
    clips: Sequence[clip_pb2.Clip],
    *,
    version: int = 1,
    task_id: str = "",
) -> None:
    """Save a run's clips."""
    await asr.slicing.SaveClips(
        slicing_service_pb2.SaveClipsRequest(
            video_project_id=project.id,
            task_id=task_id or project.slice_task_id,
            task_version=version,
            clips=clips,
            clips_source="topics",
        )
    )


async def fail(
    asr: Asr,
    project: video_project_pb2.VideoProject,
    reason: str,
    *,
    version: int = 1,
    retryable: bool = False,
) -> None:
    """Fail a run."""
    request = slicing_service_pb2.FailSlicingRequest(
        video_project_id=project.id, task_id=project.slice_task_id, task_version=version, retryable=retryable
    )
    await fail_by(asr, request, reason)


async def fail_by(asr: Asr, request: slicing_service_pb2.FailSlicingRequest, reason: str) -> None:
    """Make the call that fails a run, with a reason and a message made of it."""
    request.reason, request.message = reason, f"because of {reason}"
    await asr.slicing.FailSlicing(request)
