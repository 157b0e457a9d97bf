"""Drafts and the calls of their runs, made by hand."""

from __future__ import annotations

import hashlib

from frontrow.asr.v1 import (
    editing_draft_pb2,
    slicing_service_pb2,
    video_project_pb2,
    video_project_service_pb2,
)

from libs.common.client import reading
from tests.integration.slicing.asr_server import Asr
from tests.integration.slicing.runs import begin, clip, fail_by, save

OTIO = editing_draft_pb2.DRAFT_FORMAT_OTIO
JIANYING = editing_draft_pb2.DRAFT_FORMAT_JIANYING


async def completed_project(asr: Asr, name: str, *, clips: int = 2) -> video_project_pb2.VideoProject:
    """Return a completed project whose clips have no files."""
    project = await asr.project((await asr.transcribed(name)).id)
    await begin(asr, project)
    await save(asr, project, [clip(project, i) for i in range(clips)])
    return await asr.reread(project)


async def ask(
    asr: Asr, project: video_project_pb2.VideoProject, **fields: object
) -> editing_draft_pb2.EditingDraft:
    """Ask for a draft."""
    request = video_project_service_pb2.CreateEditingDraftRequest(
        **({"video_project_id": project.id} | fields)  # type: ignore[arg-type]
    )
    return (await asr.projects.CreateEditingDraft(request)).editing_draft


async def reread(asr: Asr, draft_id: str) -> editing_draft_pb2.EditingDraft:
    """Read a draft again."""
    request = video_project_service_pb2.GetEditingDraftRequest(editing_draft_id=draft_id)
    return (await asr.projects.GetEditingDraft(request)).editing_draft


async def begin_draft(
    asr: Asr, draft: editing_draft_pb2.EditingDraft, *, version: int = 1, task_id: str = ""
) -> list[slicing_service_pb2.GetSlicingInputResponse]:
    """Begin a run on a draft and return all messages of its input."""
    request = slicing_service_pb2.GetSlicingInputRequest(
        video_project_id=draft.video_project_id,
        editing_draft_id=draft.id,
        task_id=task_id or draft.draft_task_id,
        task_version=version,
    )
    async with reading(asr.slicing.GetSlicingInput(request)) as answers:
        return [answer async for answer in answers]


def stored(prefix: str, content: bytes = b"a zip") -> slicing_service_pb2.StoredDraft:
    """Say what a worker says of a draft that it has stored."""
    sha1 = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    return slicing_service_pb2.StoredDraft(
        media_key=f"{prefix}{sha1}.zip",
        size_bytes=len(content),
        sha1=sha1,
        file_name="draft.zip",
        duration_ms=4000,
        frame_rate="30000/1001",
    )


async def save_draft(
    asr: Asr, draft: editing_draft_pb2.EditingDraft, *, version: int = 1, prefix: str = ""
) -> None:
    """Save a run's draft."""
    folder = prefix or f"drafts/{draft.video_project_id}/{draft.id}/"
    await asr.slicing.SaveDraft(
        slicing_service_pb2.SaveDraftRequest(
            video_project_id=draft.video_project_id,
            editing_draft_id=draft.id,
            task_id=draft.draft_task_id,
            task_version=version,
            draft=stored(folder),
        )
    )


async def save_own_draft(asr: Asr, project: video_project_pb2.VideoProject, *, version: int = 1) -> None:
    """Save the draft of a project that makes one with its clips."""
    await asr.slicing.SaveDraft(
        slicing_service_pb2.SaveDraftRequest(
            video_project_id=project.id,
            task_id=project.slice_task_id,
            task_version=version,
            draft=stored(f"drafts/{project.id}/own/"),
        )
    )


async def fail_draft(
    asr: Asr,
    draft: editing_draft_pb2.EditingDraft,
    reason: str,
    *,
    version: int = 1,
    retryable: bool = False,
) -> None:
    """Fail a run on a draft."""
    request = slicing_service_pb2.FailSlicingRequest(
        video_project_id=draft.video_project_id,
        editing_draft_id=draft.id,
        task_id=draft.draft_task_id,
        task_version=version,
        retryable=retryable,
    )
    await fail_by(asr, request, reason)
