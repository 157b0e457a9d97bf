"""Create live materials: of an upload or of an address, once for each request id."""

import hashlib
from typing import Any
from uuid import UUID

from frontrow.asr.v1 import live_material_service_pb2 as pb
from google.protobuf.message import Message
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.errors import InvalidArgument
from libs.common.ids import uuid7
from libs.common.tracing import link_to, present_trace
from services.asr import convert, repository_fetch, repository_upload
from services.asr import repository_material as repository
from services.asr.errors import MaterialNotFound, NameTaken, RequestIdReused, UploadIncomplete, UploadTaken
from services.asr.fetches import checked_url, file_name_of
from services.asr.peers import enqueue_transcription
from services.asr.states import AsrStatus

Request = pb.CreateLiveMaterialRequest


def checked(request: Request) -> None:
    """Return if a request names one recording.

    Raises:
        InvalidArgument: it names none, or two, or one that can't be.
    """
    if request.upload_id and request.media_url:
        raise InvalidArgument.of_field("media_url", "must be empty when upload_id is set")
    if request.media_url:
        checked_url(request.media_url)
    elif request.upload_id:
        convert.parse_id(request.upload_id, "upload_id")
    else:
        raise InvalidArgument.of_field("upload_id", "is needed, unless media_url says where the recording is")


async def create(session: AsyncSession, request: Request) -> tuple[UUID, bool]:
    """Insert a material with its task's outbox row; returns its id, and False when the request had made it.

    Raises:
        NameTaken, UploadTaken, UploadNotFound, UploadIncomplete, RequestIdReused.
    """
    known = await _known(session, request)
    if known is not None:
        return known, False
    material_id = uuid7()
    try:
        if await _insert(session, request, material_id):
            return material_id, True
    except (NameTaken, UploadTaken):
        # a call with this request id that was quicker has the name and the upload, too
        known = await _known(session, request)
        if known is None:
            raise
        return known, False
    known = await _known(session, request)
    if known is None:
        raise MaterialNotFound("the live material made under this request_id has just been deleted")
    return known, False


async def _known(session: AsyncSession, request: Request) -> UUID | None:
    """Return the material that this request id made.

    Raises:
        RequestIdReused: it was made by a request with other content.
    """
    if not request.request_id:
        return None
    found = await repository.find_by_request(session, request.request_id)
    if found is None:
        return None
    material_id, digest = found
    if digest != _digest(request):
        raise RequestIdReused(
            "this request_id made a live material of other content; choose a new one",
            live_material_id=str(material_id),
        )
    return material_id


async def _insert(session: AsyncSession, request: Request, material_id: UUID) -> bool:
    recording = await (_fetched(session, request) if request.media_url else _uploaded(session, request))
    task_id = None if request.skip_transcription else uuid7()
    values = {
        "id": material_id,
        "request_id": request.request_id,
        "request_digest": _digest(request),
        "name": request.name,
        "remark": request.remark,
        "asr_status": AsrStatus.NONE if task_id is None else AsrStatus.PENDING,
        "asr_task_id": task_id,
        "trace_parent": present_trace(),
        **recording,
    }
    created = await repository.create(session, values)
    if created and task_id is not None:
        await enqueue_transcription(session, material_id, task_id, request.name)
    return created


async def _uploaded(session: AsyncSession, request: Request) -> dict[str, Any]:
    """Return the columns that tell of a finished upload."""
    upload_id = convert.parse_id(request.upload_id, "upload_id")
    # locked: an old upload must not expire between this look and the insert
    upload = await repository_upload.get(session, upload_id, for_update=True)
    if not upload.sha1:
        raise UploadIncomplete(
            f"{upload.committed_bytes} of {upload.size_bytes} bytes are stored; resume the upload first",
            committed_bytes=str(upload.committed_bytes),
        )
    link_to(upload.trace_parent)
    return {
        "upload_id": upload_id,
        "file_name": upload.file_name,
        "media_key": upload.media_key,
        "size_bytes": upload.size_bytes,
        "sha1": upload.sha1,
    }


async def _fetched(session: AsyncSession, request: Request) -> dict[str, Any]:
    """Return the columns of a recording that a run will fetch, and insert what its pieces will hang on."""
    upload_id, name = uuid7(), file_name_of(request.media_url)
    await repository_fetch.create(session, upload_id, url=request.media_url, file_name=name)
    return {
        "upload_id": upload_id,
        "file_name": name,
        "media_url": request.media_url,
        "media_key": "",
        "size_bytes": 0,
        "sha1": "",
    }


def _digest(request: Message) -> str:
    return hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()
