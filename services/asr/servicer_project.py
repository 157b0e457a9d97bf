"""VideoProjectService: what editors do with video projects and their clips (domain.md 2.10)."""

import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import grpc
import grpc.aio
from frontrow.asr.v1 import video_project_service_pb2 as pb
from frontrow.asr.v1 import video_project_service_pb2_grpc as rpc
from frontrow.task.v1 import task_service_pb2
from google.protobuf.struct_pb2 import Struct
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database, constraint_of
from libs.common.errors import InvalidArgument
from libs.common.ids import uuid7
from libs.common.objects.store import ObjectMissing, ObjectStore
from libs.common.outbox import enqueue
from libs.common.paging import decode_token, encode_token, page_size, within_budget
from services.asr import repository_project as repository
from services.asr.convert import parse_id
from services.asr.convert_project import clip_message, project_message
from services.asr.errors import (
    AsrNotCompleted,
    ClipNotFound,
    NoSpeechInSelection,
    NoThumbnail,
    ObjectLost,
    RequestIdReused,
    VideoProjectBusy,
    VideoProjectNotFound,
)
from services.asr.models import outbox
from services.asr.peers import CREATE_TASK, enqueue_cancel
from services.asr.states import AsrStatus
from services.asr.states_project import ProjectStatus

TASK_TYPE = "ai_slice"
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
}

Context = grpc.aio.ServicerContext[Any, Any]


class VideoProjectServicer(rpc.VideoProjectServiceServicer):
    """The editors' RPCs; each method is one transaction."""

    def __init__(self, database: Database, store: ObjectStore, wake_outbox: Callable[[], None]) -> None:
        """`wake_outbox` is called after a commit that left a call to the task service in the outbox."""
        self._database = database
        self._store = store
        self._wake_outbox = wake_outbox

    async def CreateVideoProject(
        self, request: pb.CreateVideoProjectRequest, context: Context
    ) -> pb.CreateVideoProjectResponse:
        """Create the project and, in the same transaction, the outbox row of its task."""
        material_id = parse_id(request.live_material_id, "live_material_id")
        digest = _digest(request)
        async with self._database.begin() as session:
            known = await _known(session, request.request_id, digest)
            if known is not None:
                return pb.CreateVideoProjectResponse(video_project=project_message(known), created=False)
            values = await _project_values(session, material_id, request)
            created = await _insert(session, {**values, "request_digest": digest})
            if created:
                body = _create_task(values)
                await enqueue(session, outbox, subject=_subject(values["id"]), kind=CREATE_TASK, body=body)
                row = await repository.get_project(session, values["id"])
            else:
                row = await _made_meanwhile(session, request.request_id, digest)
        self._wake_outbox()
        return pb.CreateVideoProjectResponse(video_project=project_message(row), created=created)

    async def GetVideoProject(
        self, request: pb.GetVideoProjectRequest, context: Context
    ) -> pb.GetVideoProjectResponse:
        """Read one project."""
        project_id = parse_id(request.video_project_id, "video_project_id")
        async with self._database.begin() as session:
            row = await repository.get_project(session, project_id)
        return pb.GetVideoProjectResponse(video_project=project_message(row))

    async def ListVideoProjects(
        self, request: pb.ListVideoProjectsRequest, context: Context
    ) -> pb.ListVideoProjectsResponse:
        """Read a page of projects, newest first."""
        size = page_size(request.page_size)
        position = decode_token(request.page_token, request)
        before = UUID(str(position[0])) if position else None
        wanted = request.live_material_id
        material_id = parse_id(wanted, "live_material_id") if wanted else None
        async with self._database.begin() as session:
            rows = await repository.list_projects(session, material_id, before=before, limit=size + 1)
        page = within_budget([project_message(row) for row in rows[:size]])
        more = len(rows) > len(page)
        token = encode_token([UUID(page[-1].id)], request) if more else ""
        return pb.ListVideoProjectsResponse(video_projects=page, next_page_token=token)

    async def DeleteVideoProject(
        self, request: pb.DeleteVideoProjectRequest, context: Context
    ) -> pb.DeleteVideoProjectResponse:
        """Remove a project and its clips; a task that waits is cancelled, stored files go afterwards."""
        project_id = parse_id(request.video_project_id, "video_project_id")
        async with self._database.begin() as session:
            row = await repository.lock_project(session, project_id)
            if row.status == ProjectStatus.PROCESSING:
                raise VideoProjectBusy(
                    f"a run on the project is on; cancel task {row.slice_task_id} first",
                    task_id=str(row.slice_task_id),
                )
            if row.status == ProjectStatus.PENDING:
                await enqueue_cancel(session, _subject(project_id), row.slice_task_id)
            await repository.delete_project(session, project_id)
        self._wake_outbox()
        return pb.DeleteVideoProjectResponse()

    async def ListClips(self, request: pb.ListClipsRequest, context: Context) -> pb.ListClipsResponse:
        """Read a page of a project's clips in order."""
        project_id = parse_id(request.video_project_id, "video_project_id")
        size = page_size(request.page_size)
        position = decode_token(request.page_token, request)
        after = int(str(position[0])) if position else -1
        async with self._database.begin() as session:
            await repository.get_project(session, project_id)
            rows = await repository.list_clips(session, project_id, after=after, limit=size + 1)
        page = within_budget([clip_message(row) for row in rows[:size]])
        token = encode_token([page[-1].position], request) if len(rows) > len(page) else ""
        return pb.ListClipsResponse(clips=page, next_page_token=token)

    async def DownloadMedia(
        self, request: pb.DownloadMediaRequest, context: Context
    ) -> AsyncIterator[pb.DownloadMediaResponse]:
        """Stream a clip, its still picture or a recording: what it is first, then its bytes."""
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


async def _known(session: AsyncSession, request_id: str, digest: str) -> repository.AnyRow | None:
    """Return the project that was made under this request id, or None.

    Raises:
        RequestIdReused: it was made of another request.
    """
    row = await repository.project_of_request(session, request_id) if request_id else None
    if row is not None and row.request_digest != digest:
        raise RequestIdReused(
            "this request_id belongs to another request; choose a new one", video_project_id=str(row.id)
        )
    return row


async def _made_meanwhile(session: AsyncSession, request_id: str, digest: str) -> repository.AnyRow:
    """Return the project that a call at the same time has made under this request id.

    Raises:
        RequestIdReused: it was made of another request.
        VideoProjectNotFound: it has been deleted since.
    """
    row = await _known(session, request_id, digest)
    if row is None:
        raise VideoProjectNotFound("the project made under this request_id has just been deleted")
    return row


async def _project_values(
    session: AsyncSession, material_id: UUID, request: pb.CreateVideoProjectRequest
) -> dict[str, Any]:
    """Check the selection against the material and make the new project's columns.

    Raises:
        MaterialNotFound, AsrNotCompleted, NoSpeechInSelection, InvalidArgument.
    """
    material = await repository.material_for_project(session, material_id)
    if material.asr_status != AsrStatus.COMPLETED:
        raise AsrNotCompleted(
            f"the transcription is {material.asr_status}; a project can be made once it is completed",
            asr_status=material.asr_status,
        )
    start, end = request.span_start_ms, request.span_end_ms or material.duration_ms
    if end > material.duration_ms:
        raise InvalidArgument.of_field("span_end_ms", f"is past the end, {material.duration_ms} ms")
    if start >= end:
        raise InvalidArgument.of_field("span_start_ms", f"must be before the selection's end, {end} ms")
    if not await repository.has_speech(session, material_id, start, end):
        raise NoSpeechInSelection(f"nobody speaks between {start} ms and {end} ms; select another span")
    return {
        "id": uuid7(),
        "live_material_id": material_id,
        "request_id": request.request_id,
        "name": request.name,
        "live_material_name": material.name,
        "span_start_ms": start,
        "span_end_ms": end,
        "prompt": request.prompt,
        "keywords": request.keywords,
        "mode": "ai_slice",
        "slice_task_id": uuid7(),
    }


async def _insert(session: AsyncSession, values: dict[str, Any]) -> bool:
    """Insert the project; False when another call with the same request id was quicker."""
    try:
        async with session.begin_nested():
            await repository.insert_project(session, values)
    except IntegrityError as error:
        if constraint_of(error) == "video_projects_request_key":
            return False
        raise
    return True


def _create_task(values: dict[str, Any]) -> bytes:
    payload = Struct()
    payload.update({"video_project_id": str(values["id"])})
    return task_service_pb2.CreateTaskRequest(
        task_id=str(values["slice_task_id"]),
        type=TASK_TYPE,
        payload=payload,
        subject=_subject(values["id"]),
        live_material_name=values["live_material_name"],
        video_project_name=values["name"],
    ).SerializeToString()


def _subject(project_id: UUID) -> str:
    return f"video_project:{project_id}"


def _digest(request: pb.CreateVideoProjectRequest) -> str:
    """Digest the content of a request, its id aside."""
    content = pb.CreateVideoProjectRequest()
    content.CopyFrom(request)
    content.ClearField("request_id")
    return hashlib.sha256(content.SerializeToString(deterministic=True)).hexdigest()


async def _object_of(session: AsyncSession, request: pb.DownloadMediaRequest) -> tuple[str, str]:
    """Return the key of what is to be downloaded and a name to save it under."""
    if request.WhichOneof("target") == "recording":
        target = request.recording
        row = await repository.recording_keys(session, parse_id(target.live_material_id, "live_material_id"))
        if target.file != pb.RECORDING_FILE_CANONICAL:
            return row.media_key, row.file_name or PurePosixPath(row.media_key).name
        if not row.canonical_key:
            raise AsrNotCompleted("the canonical recording is made by the transcription; wait for it")
        return row.canonical_key, f"{_file_stem(row.name)}.mp4"
    field = "clip_id" if request.WhichOneof("target") == "clip_id" else "thumbnail_clip_id"
    clip_id = parse_id(getattr(request, field), field)
    clip = await repository.get_clip(session, clip_id)
    if clip is None:
        raise ClipNotFound(f"there is no clip {clip_id}", clip_id=str(clip_id))
    key = clip.media_key if field == "clip_id" else clip.thumbnail_key
    if not key:
        raise NoThumbnail("the clip is sound without picture")
    return key, f"{clip.position + 1:03d} {_file_stem(clip.title)}{PurePosixPath(key).suffix}"


def _file_stem(text: str) -> str:
    """Make a name that every file system takes."""
    return "".join("_" if c in '/\\:*?"<>|' or not c.isprintable() else c for c in text).strip(". ") or "clip"
