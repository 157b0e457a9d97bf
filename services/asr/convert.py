"""Materials and uploads: rows to messages."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from frontrow.asr.v1 import live_material_pb2, live_material_service_pb2, transcription_service_pb2
from google.protobuf.json_format import ParseDict
from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import Row

from libs.common.errors import InvalidArgument
from services.asr.states import AsrStatus

ASR_STATUS: Mapping[str, live_material_pb2.AsrStatus.ValueType] = {
    AsrStatus.NONE: live_material_pb2.ASR_STATUS_NONE,
    AsrStatus.PENDING: live_material_pb2.ASR_STATUS_PENDING,
    AsrStatus.PROCESSING: live_material_pb2.ASR_STATUS_PROCESSING,
    AsrStatus.COMPLETED: live_material_pb2.ASR_STATUS_COMPLETED,
    AsrStatus.FAILED: live_material_pb2.ASR_STATUS_FAILED,
}
STATUS_TEXT: Mapping[live_material_pb2.AsrStatus.ValueType, str] = {
    number: text for text, number in ASR_STATUS.items()
}


def timestamp(value: dt.datetime | None) -> Timestamp | None:
    """Make a Timestamp of an aware time; None stays None."""
    if value is None:
        return None
    result = Timestamp()
    result.FromDatetime(value)
    return result


def parse_id(text: str, field: str) -> UUID:
    """Read an id of ours.

    Raises:
        InvalidArgument: it is no UUID.
    """
    try:
        return UUID(text)
    except ValueError:
        raise InvalidArgument.of_field(field, "must be an id as the server gave it (a UUID)") from None


def material_message(row: Row[Any]) -> live_material_pb2.LiveMaterial:
    """Make a LiveMaterial of a row of `repository_material.COLUMNS`."""
    return live_material_pb2.LiveMaterial(
        id=str(row.id),
        name=row.name,
        remark=row.remark,
        file_name=row.file_name,
        size_bytes=row.size_bytes,
        sha1=row.sha1,
        duration_ms=row.duration_ms,
        width=row.width,
        height=row.height,
        asr_status=ASR_STATUS[row.asr_status],
        asr_version=row.asr_version,
        asr_task_id=str(row.asr_task_id) if row.asr_task_id else "",
        asr_progress=row.asr_progress,
        asr_error_reason=row.asr_error_reason,
        asr_error=row.asr_error,
        cancel_requested=row.cancel_requested,
        has_transcript=row.has_transcript,
        create_time=timestamp(row.created_at),
        update_time=timestamp(row.updated_at),
        missing_seconds=row.missing_seconds,
        media_url=row.media_url,
        audio_tracks=map(_audio_track, row.audio_tracks),
    )


def _audio_track(stored: dict[str, Any]) -> live_material_pb2.AudioTrack:
    # a later release may know more of a track
    return ParseDict(stored, live_material_pb2.AudioTrack(), ignore_unknown_fields=True)


def audio_track_json(message: live_material_pb2.AudioTrack) -> dict[str, Any]:
    """Make the stored form of an AudioTrack: its fields by name."""
    return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}


def upload_message(row: Row[Any]) -> live_material_service_pb2.Upload:
    """Make an Upload of a row of uploads."""
    return live_material_service_pb2.Upload(
        upload_id=str(row.id),
        size_bytes=row.size_bytes,
        committed_bytes=row.committed_bytes,
        sha1=row.sha1,
        finished=row.sha1 != "",
        file_name=row.file_name,
        create_time=timestamp(row.created_at),
    )


def fetch_message(row: Row[Any], pieces: Sequence[Any]) -> transcription_service_pb2.MediaFetch:
    """Make a MediaFetch of a row of uploads and its parts."""
    return transcription_service_pb2.MediaFetch(
        url=row.source_url,
        upload_id=str(row.id),
        pieces=[
            transcription_service_pb2.FetchedPiece(object_key=piece.object_key, size_bytes=piece.size_bytes)
            for piece in pieces
        ],
        validator=row.validator,
        size_bytes=row.size_bytes,
    )
