"""RPCs of live materials: their life, and the request and cancellation of their transcription."""

from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import grpc.aio
from frontrow.asr.v1 import live_material_pb2
from frontrow.asr.v1 import live_material_service_pb2 as pb
from frontrow.asr.v1.live_material_service_pb2_grpc import LiveMaterialServiceServicer

from libs.common import keywords, paging
from libs.common.db import Database
from libs.common.errors import InvalidArgument
from libs.common.ids import uuid7
from libs.common.objects import ObjectStore
from services.asr import convert, creation, repository_deletion, repository_upload
from services.asr import repository_material as repository
from services.asr.debug_records import DebugRecords
from services.asr.peers import enqueue_cancel, enqueue_transcription, material_subject
from services.asr.transcripts import Transcripts
from services.asr.uploads import Uploads

Context = grpc.aio.ServicerContext[Any, Any]
_WRITABLE = ("name", "remark")


class LiveMaterialServicer(LiveMaterialServiceServicer):
    """LiveMaterialService over one database and one object store."""

    def __init__(
        self, database: Database, store: ObjectStore, uploads: Uploads, wake_relay: Callable[[], None]
    ) -> None:
        """`wake_relay` is called after each commit that left something in the outbox."""
        self._database = database
        self._uploads = uploads
        self._transcripts = Transcripts(database)
        self._debug = DebugRecords(database, store)
        self._wake_relay = wake_relay

    async def CreateLiveMaterial(
        self, request: pb.CreateLiveMaterialRequest, context: Context
    ) -> pb.CreateLiveMaterialResponse:
        """Create a material of an upload or an address, with its task's outbox row in one transaction."""
        creation.checked(request)
        async with self._database.begin() as session:
            material_id, created = await creation.create(session, request)
            row = await repository.get(session, material_id)
        self._wake_relay()
        return pb.CreateLiveMaterialResponse(live_material=convert.material_message(row), created=created)

    async def UploadMedia(
        self, request_iterator: AsyncIterator[pb.UploadMediaRequest], context: Context
    ) -> pb.UploadMediaResponse:
        """Take the chunks of a new or a resumed upload."""
        return pb.UploadMediaResponse(upload=await self._uploads.receive(request_iterator))

    async def GetUpload(self, request: pb.GetUploadRequest, context: Context) -> pb.GetUploadResponse:
        """Tell how much of an upload is committed."""
        async with self._database.begin() as session:
            row = await repository_upload.get(session, convert.parse_id(request.upload_id, "upload_id"))
        return pb.GetUploadResponse(upload=convert.upload_message(row))

    async def GetLiveMaterial(
        self, request: pb.GetLiveMaterialRequest, context: Context
    ) -> pb.GetLiveMaterialResponse:
        """Read one material."""
        material = await self._read(_material_id(request.live_material_id))
        return pb.GetLiveMaterialResponse(live_material=material)

    async def ListLiveMaterials(
        self, request: pb.ListLiveMaterialsRequest, context: Context
    ) -> pb.ListLiveMaterialsResponse:
        """List a page of materials, newest first."""
        size = paging.page_size(request.page_size)
        position = paging.decode_token(request.page_token, request, str)
        wanted = repository.ListFilter(
            keyword_groups=keywords.parse(request.keywords),
            transcript_groups=keywords.parse(request.transcript_keywords),
            statuses=[convert.STATUS_TEXT[status] for status in request.asr_statuses],
        )
        before = convert.parse_id(position[0], "page_token") if position else None
        async with self._database.begin() as session:
            rows = await repository.list_page(session, wanted, before=before, limit=size + 1)
        fitting = paging.within_budget(convert.material_message(row) for row in rows[:size])
        response = pb.ListLiveMaterialsResponse(live_materials=fitting)
        if len(fitting) < len(rows):
            response.next_page_token = paging.encode_token([fitting[-1].id], request)
        return response

    async def UpdateLiveMaterial(
        self, request: pb.UpdateLiveMaterialRequest, context: Context
    ) -> pb.UpdateLiveMaterialResponse:
        """Write name and remark, as the mask says."""
        material_id = _material_id(request.live_material_id)
        values = _masked(request)
        async with self._database.begin() as session:
            if values:
                await repository.update_name_remark(session, material_id, values)
            row = await repository.get(session, material_id)
        return pb.UpdateLiveMaterialResponse(live_material=convert.material_message(row))

    async def DeleteLiveMaterial(
        self, request: pb.DeleteLiveMaterialRequest, context: Context
    ) -> pb.DeleteLiveMaterialResponse:
        """Remove a material with all that hangs on it; pending tasks are cancelled by the outbox."""
        material_id = _material_id(request.live_material_id)
        async with self._database.begin() as session:
            for subject, task_id in await repository_deletion.remove_material(session, material_id):
                await enqueue_cancel(session, subject, task_id)
        self._wake_relay()
        return pb.DeleteLiveMaterialResponse()

    async def ResetASRToPending(
        self, request: pb.ResetASRToPendingRequest, context: Context
    ) -> pb.ResetASRToPendingResponse:
        """Ask for a (new) transcription with a new task."""
        material_id = _material_id(request.live_material_id)
        task_id = uuid7()
        async with self._database.begin() as session:
            await repository.reset_to_pending(session, material_id, task_id)
            row = await repository.get(session, material_id)
            await enqueue_transcription(session, material_id, task_id, row.name)
        self._wake_relay()
        return pb.ResetASRToPendingResponse(live_material=convert.material_message(row))

    async def CancelTranscription(
        self, request: pb.CancelTranscriptionRequest, context: Context
    ) -> pb.CancelTranscriptionResponse:
        """Have the current task cancelled; the material follows its end."""
        material_id = _material_id(request.live_material_id)
        async with self._database.begin() as session:
            task_id = await repository.request_cancel(session, material_id)
            await enqueue_cancel(session, material_subject(material_id), task_id)
            row = await repository.get(session, material_id)
        self._wake_relay()
        return pb.CancelTranscriptionResponse(live_material=convert.material_message(row))

    async def GetTranscript(
        self, request: pb.GetTranscriptRequest, context: Context
    ) -> AsyncIterator[pb.GetTranscriptResponse]:
        """Stream the transcript of one moment: header, topics, paragraphs, utterances."""
        async for answer in self._transcripts.stream(request):
            yield answer

    async def SearchTranscripts(
        self, request: pb.SearchTranscriptsRequest, context: Context
    ) -> pb.SearchTranscriptsResponse:
        """Find paragraphs by keyword groups."""
        return await self._transcripts.search(request)

    async def ExportTranscript(
        self, request: pb.ExportTranscriptRequest, context: Context
    ) -> AsyncIterator[pb.ExportTranscriptResponse]:
        """Write a transcript as a file."""
        async for answer in self._transcripts.export(request):
            yield answer

    async def GetDebugRecord(
        self, request: pb.GetDebugRecordRequest, context: Context
    ) -> AsyncIterator[pb.GetDebugRecordResponse]:
        """Read what each stage of a run did."""
        async for answer in self._debug.stream(request):
            yield answer

    async def PinDebugRecord(
        self, request: pb.PinDebugRecordRequest, context: Context
    ) -> pb.PinDebugRecordResponse:
        """Keep a run's record, or let it go."""
        return await self._debug.pin(request)

    async def _read(self, material_id: UUID) -> live_material_pb2.LiveMaterial:
        async with self._database.begin() as session:
            return convert.material_message(await repository.get(session, material_id))


def _material_id(text: str) -> UUID:
    return convert.parse_id(text, "live_material_id")


def _masked(request: pb.UpdateLiveMaterialRequest) -> dict[str, str]:
    """Return what the mask says to write.

    Raises:
        InvalidArgument: the mask names something else, or the name would be empty.
    """
    for path in request.update_mask.paths:
        if path not in _WRITABLE:
            raise InvalidArgument.of_field("update_mask", f"{path!r} can't be written; name and remark can")
    values = {path: str(getattr(request, path)) for path in request.update_mask.paths}
    if values.get("name", "x") == "":
        raise InvalidArgument.of_field("name", "must not be empty")
    return values
