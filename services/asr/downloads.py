"""Download of media for VideoProjectService: clips, still pictures, editing drafts, recordings."""

from collections.abc import AsyncIterator
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from frontrow.asr.v1 import video_project_service_pb2 as pb
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database
from libs.common.errors import InvalidArgument
from libs.common.objects.store import ObjectMissing, ObjectStore
from services.asr import repository_draft
from services.asr import repository_project as repository
from services.asr.convert import parse_id
from services.asr.errors import (
    AsrNotCompleted,
    ClipNotFound,
    EditingDraftNotCompleted,
    NoThumbnail,
    ObjectLost,
)
from services.asr.file_names import file_stem

_CHUNK_BYTES = 1 << 18
# The standard library's table is wrong for .ts, so there is one of our own.
_CONTENT_TYPES = {
    ".mp4": "video/mp4",
    ".m4a": "audio/mp4",
    ".mov": "video/quicktime",
    ".flv": "video/x-flv",
    ".ts": "video/mp2t",
    ".mkv": "video/x-matroska",
    ".webm": "video/webm",
    ".mp3": "audio/mpeg",
    ".wav": "audio/wav",
    ".jpg": "image/jpeg",
    ".zip": "application/zip",
}


class Downloads:
    """Streams stored files; no transaction is open while the store is read."""

    def __init__(self, database: Database, store: ObjectStore) -> None:
        self._database = database
        self._store = store

    async def download(self, request: pb.DownloadMediaRequest) -> AsyncIterator[pb.DownloadMediaResponse]:
        """Yield what the file is, then its bytes from the offset.

        Raises:
            ClipNotFound, EditingDraftNotFound, MaterialNotFound, NoThumbnail, ObjectLost, AsrNotCompleted,
            EditingDraftNotCompleted, InvalidArgument.
        """
        async with self._database.begin() as session:
            key, name = await _object_of(session, request)
        found = await self._store.head(key)
        if found is None:
            raise ObjectLost(f"the store holds no {key}: restore it from a backup", key=key)
        if request.offset > found.size:
            raise InvalidArgument.of_field("offset", f"is past the end; the file has {found.size} bytes")
        content_type = _CONTENT_TYPES.get(PurePosixPath(name).suffix.lower(), "application/octet-stream")
        info = pb.MediaInfo(size_bytes=found.size, content_type=content_type, file_name=name)
        yield pb.DownloadMediaResponse(info=info)
        if request.offset == found.size:
            return
        try:
            async for chunk in self._store.stream(key, start=request.offset, chunk_bytes=_CHUNK_BYTES):
                yield pb.DownloadMediaResponse(chunk=chunk)
        except ObjectMissing as error:
            raise ObjectLost(f"the store lost {key} while it was read", key=key) from error


async def _object_of(session: AsyncSession, request: pb.DownloadMediaRequest) -> tuple[str, str]:
    """Return the key of what is to be downloaded and a name to save it under."""
    kind = request.WhichOneof("target") or "clip_id"
    if kind == "recording":
        return await _recording(session, request.recording)
    wanted = parse_id(getattr(request, kind), kind)
    if kind == "editing_draft_id":
        return await _draft(session, wanted)
    clip = await repository.get_clip(session, wanted)
    if clip is None:
        raise ClipNotFound(f"there is no clip {wanted}", clip_id=str(wanted))
    key: str = clip.media_key if kind == "clip_id" else clip.thumbnail_key
    if not key:
        raise NoThumbnail("the clip is sound without picture")
    return key, f"{clip.position + 1:03d} {file_stem(clip.title, 'clip')}{PurePosixPath(key).suffix}"


async def _recording(session: AsyncSession, target: pb.RecordingTarget) -> tuple[str, str]:
    row: Any = await repository.recording_keys(session, parse_id(target.live_material_id, "live_material_id"))
    if target.file != pb.RECORDING_FILE_CANONICAL:
        if not row.media_key:
            raise AsrNotCompleted("the recording is fetched by the transcription; wait for it")
        return row.media_key, row.file_name or PurePosixPath(row.media_key).name
    if not row.canonical_key:
        raise AsrNotCompleted("the canonical recording is made by the transcription; wait for it")
    return row.canonical_key, f"{file_stem(row.name, 'recording')}.mp4"


async def _draft(session: AsyncSession, draft_id: UUID) -> tuple[str, str]:
    row = await repository_draft.get_draft(session, draft_id)
    if not row.media_key:
        raise EditingDraftNotCompleted(
            f"the draft is {row.draft_status}; it can be downloaded once it is completed",
            draft_status=row.draft_status,
        )
    return row.media_key, row.file_name
