"""Video projects and clips: rows to messages and back."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from frontrow.asr.v1 import clip_pb2, video_project_pb2

from services.asr.convert import parse_id, timestamp
from services.asr.repository_project import AnyRow
from services.asr.states_project import ProjectStatus

STATUS: Mapping[str, video_project_pb2.VideoProjectStatus.ValueType] = {
    ProjectStatus.PENDING: video_project_pb2.VIDEO_PROJECT_STATUS_PENDING,
    ProjectStatus.PROCESSING: video_project_pb2.VIDEO_PROJECT_STATUS_PROCESSING,
    ProjectStatus.COMPLETED: video_project_pb2.VIDEO_PROJECT_STATUS_COMPLETED,
    ProjectStatus.FAILED: video_project_pb2.VIDEO_PROJECT_STATUS_FAILED,
}
MODE: Mapping[str, video_project_pb2.VideoProjectMode.ValueType] = {
    "ai_slice": video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE,
}


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
    )


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
        "media_key": message.media_key,
        "thumbnail_key": message.thumbnail_key,
        "size_bytes": message.size_bytes,
        "sha1": message.sha1,
        "width": message.width,
        "height": message.height,
        "duration_ms": message.duration_ms,
    }
