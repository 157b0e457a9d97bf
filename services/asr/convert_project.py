"""Video projects, clips and editing drafts: rows to messages and back."""

import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar
from uuid import UUID

from frontrow.asr.v1 import (
    clip_pb2,
    editing_draft_pb2,
    slicing_service_pb2,
    video_project_pb2,
    video_project_service_pb2,
)

from services.asr.convert import parse_id, timestamp
from services.asr.repository_project import AnyRow
from services.asr.states_project import AI_SLICE, AI_SLICE_DRAFT, ProjectStatus

_Create = TypeVar(
    "_Create",
    video_project_service_pb2.CreateVideoProjectRequest,
    video_project_service_pb2.CreateEditingDraftRequest,
)

STATUS: Mapping[str, video_project_pb2.VideoProjectStatus.ValueType] = {
    ProjectStatus.PENDING: video_project_pb2.VIDEO_PROJECT_STATUS_PENDING,
    ProjectStatus.PROCESSING: video_project_pb2.VIDEO_PROJECT_STATUS_PROCESSING,
    ProjectStatus.COMPLETED: video_project_pb2.VIDEO_PROJECT_STATUS_COMPLETED,
    ProjectStatus.FAILED: video_project_pb2.VIDEO_PROJECT_STATUS_FAILED,
}
MODE: Mapping[str, video_project_pb2.VideoProjectMode.ValueType] = {
    AI_SLICE: video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE,
    AI_SLICE_DRAFT: video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE_DRAFT,
}
CUT_MODE: Mapping[str, video_project_pb2.CutMode.ValueType] = {
    "exact": video_project_pb2.CUT_MODE_EXACT,
    "fast": video_project_pb2.CUT_MODE_FAST,
}
DRAFT_FORMAT: Mapping[str, editing_draft_pb2.DraftFormat.ValueType] = {
    "otio": editing_draft_pb2.DRAFT_FORMAT_OTIO,
    "fcp7_xml": editing_draft_pb2.DRAFT_FORMAT_FCP7_XML,
    "srt": editing_draft_pb2.DRAFT_FORMAT_SRT,
    "jianying": editing_draft_pb2.DRAFT_FORMAT_JIANYING,
}
DRAFT_STATUS: Mapping[str, editing_draft_pb2.EditingDraftStatus.ValueType] = {
    ProjectStatus.PENDING: editing_draft_pb2.EDITING_DRAFT_STATUS_PENDING,
    ProjectStatus.PROCESSING: editing_draft_pb2.EDITING_DRAFT_STATUS_PROCESSING,
    ProjectStatus.COMPLETED: editing_draft_pb2.EDITING_DRAFT_STATUS_COMPLETED,
    ProjectStatus.FAILED: editing_draft_pb2.EDITING_DRAFT_STATUS_FAILED,
}
_NO_DRAFT = editing_draft_pb2.DRAFT_FORMAT_UNSPECIFIED


def project_message(row: AnyRow) -> video_project_pb2.VideoProject:
    """Make a VideoProject of a row of `repository_project.COLUMNS`."""
    return video_project_pb2.VideoProject(
        id=str(row.id),
        live_material_id=str(row.live_material_id),
        live_material_name=row.live_material_name,
        name=row.name,
        span_start_ms=row.span_start_ms,
        span_end_ms=row.span_end_ms,
        prompt=row.prompt,
        keywords=row.keywords,
        mode=MODE.get(row.mode, video_project_pb2.VIDEO_PROJECT_MODE_UNSPECIFIED),
        status=STATUS[row.status],
        slice_task_id=str(row.slice_task_id),
        error_reason=row.error_reason,
        error_message=row.error_message,
        clip_count=row.clip_count,
        clips_source=row.clips_source,
        create_time=timestamp(row.created_at),
        update_time=timestamp(row.updated_at),
        complete_time=timestamp(row.completed_at),
        draft_format=draft_format(row),
        draft_root=row.draft_root,
        cut_mode=CUT_MODE[row.cut_mode],
        editing_draft_id=row.editing_draft_id or "",
    )


def digest_of(request: _Create) -> str:
    """Digest the content of a request that has a request_id, its id aside."""
    content = type(request)()
    content.CopyFrom(request)
    content.ClearField("request_id")
    return hashlib.sha256(content.SerializeToString(deterministic=True)).hexdigest()


def draft_format(project: AnyRow) -> editing_draft_pb2.DraftFormat.ValueType:
    """Return what the draft of a project's own task is written as; unspecified: it makes none."""
    return DRAFT_FORMAT.get(project.draft_format, _NO_DRAFT)


def stored_name(numbers: Mapping[str, int], number: int, *, default: str) -> str:
    """Return how a value of an enum is stored; the zero value is stored as `default`."""
    return next((name for name, value in numbers.items() if value == number), default)


def draft_message(row: AnyRow) -> editing_draft_pb2.EditingDraft:
    """Make an EditingDraft of a row of editing_drafts."""
    return editing_draft_pb2.EditingDraft(
        id=str(row.id),
        video_project_id=str(row.video_project_id),
        format=DRAFT_FORMAT[row.format],
        clip_ids=row.clip_ids,
        draft_root=row.draft_root,
        draft_status=DRAFT_STATUS[row.draft_status],
        draft_task_id=str(row.draft_task_id),
        error_reason=row.error_reason,
        error_message=row.error_message,
        media_key=row.media_key,
        size_bytes=row.size_bytes,
        sha1=row.sha1,
        file_name=row.file_name,
        duration_ms=row.duration_ms,
        frame_rate=row.frame_rate,
        create_time=timestamp(row.created_at),
        update_time=timestamp(row.updated_at),
        complete_time=timestamp(row.completed_at),
    )


def draft_values(draft: slicing_service_pb2.StoredDraft) -> dict[str, Any]:
    """Make the columns that a run fills of a draft's row."""
    return {
        "media_key": draft.media_key,
        "size_bytes": draft.size_bytes,
        "sha1": draft.sha1,
        "file_name": draft.file_name,
        "duration_ms": draft.duration_ms,
        "frame_rate": draft.frame_rate,
    }


def clip_message(row: AnyRow) -> clip_pb2.Clip:
    """Make a Clip of a row of clips."""
    return clip_pb2.Clip(
        id=str(row.id),
        video_project_id=str(row.video_project_id),
        position=row.position,
        title=row.title,
        description=row.description,
        topics=row.topics,
        start_ms=row.start_ms,
        end_ms=row.end_ms,
        media_key=row.media_key,
        size_bytes=row.size_bytes,
        sha1=row.sha1,
        width=row.width,
        height=row.height,
        duration_ms=row.duration_ms,
        create_time=timestamp(row.created_at),
        thumbnail_key=row.thumbnail_key,
        chosen_start_ms=row.chosen_start_ms,
        words_source=row.words_source,
    )


def clip_values(message: clip_pb2.Clip, project_id: UUID, position: int) -> dict[str, Any]:
    """Make the columns of a clip's row of what the worker sent.

    Raises:
        InvalidArgument: its id is no UUID.
    """
    return {
        "id": parse_id(message.id, f"clips[{position}].id"),
        "video_project_id": project_id,
        "position": position,
        "title": message.title,
        "description": message.description,
        "topics": list(message.topics),
        "start_ms": message.start_ms,
        "end_ms": message.end_ms,
        # a worker of the release before doesn't say
        "chosen_start_ms": message.chosen_start_ms or message.start_ms,
        "words_source": message.words_source or "local",
        "media_key": message.media_key,
        "thumbnail_key": message.thumbnail_key,
        "size_bytes": message.size_bytes,
        "sha1": message.sha1,
        "width": message.width,
        "height": message.height,
        "duration_ms": message.duration_ms,
    }
