"""VideoProjectService: what editors do with video projects and their clips (domain.md 2.10)."""

from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import grpc
import grpc.aio
from frontrow.asr.v1 import video_project_service_pb2 as pb
from frontrow.asr.v1 import video_project_service_pb2_grpc as rpc
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database, constraint_of
from libs.common.errors import InvalidArgument
from libs.common.ids import uuid7
from libs.common.objects.store import ObjectStore
from libs.common.paging import decode_token, encode_token, page_size, within_budget
from libs.common.tracing import link_to, present_trace
from services.asr import repository_project as repository
from services.asr.convert import parse_id
from services.asr.convert_project import (
    CUT_MODE,
    DRAFT_FORMAT,
    MODE,
    clip_message,
    digest_of,
    project_message,
    stored_name,
)
from services.asr.downloads import Downloads
from services.asr.editing_drafts import EditingDrafts, check_draft_root
from services.asr.errors import (
    AsrNotCompleted,
    NoSpeechInSelection,
    RequestIdReused,
    VideoProjectBusy,
    VideoProjectNotFound,
)
from services.asr.peers import draft_subject, enqueue_cancel, enqueue_slicing, project_subject
from services.asr.repository_draft import unfinished_drafts
from services.asr.states import AsrStatus
from services.asr.states_project import AI_SLICE, AI_SLICE_DRAFT, ProjectStatus

Context = grpc.aio.ServicerContext[Any, Any]


class VideoProjectServicer(rpc.VideoProjectServiceServicer):
    """The editors' RPCs; each method is one transaction."""

    def __init__(self, database: Database, store: ObjectStore, wake_outbox: Callable[[], None]) -> None:
        """`wake_outbox` is called after a commit that left a call to the task service in the outbox."""
        self._database = database
        self._wake_outbox = wake_outbox
        self._drafts = EditingDrafts(database, wake_outbox)
        self._downloads = Downloads(database, store)

    async def CreateVideoProject(
        self, request: pb.CreateVideoProjectRequest, context: Context
    ) -> pb.CreateVideoProjectResponse:
        """Create the project and, in the same transaction, the outbox row of its task."""
        material_id = parse_id(request.live_material_id, "live_material_id")
        digest = digest_of(request)
        async with self._database.begin() as session:
            known = await _known(session, request.request_id, digest)
            if known is not None:
                return pb.CreateVideoProjectResponse(video_project=project_message(known), created=False)
            values = await _project_values(session, material_id, request)
            created = await _insert(session, {**values, "request_digest": digest})
            if created:
                await enqueue_slicing(session, values)
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
        position = decode_token(request.page_token, request, UUID)
        before = position[0] if position else None
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
            for draft in await unfinished_drafts(session, [project_id]):
                if draft.draft_status == ProjectStatus.PROCESSING:
                    raise VideoProjectBusy(
                        f"a run on its draft {draft.id} is on; cancel task {draft.draft_task_id} first",
                        task_id=str(draft.draft_task_id),
                    )
                await enqueue_cancel(session, draft_subject(draft.id), draft.draft_task_id)
            if row.status == ProjectStatus.PENDING:
                await enqueue_cancel(session, project_subject(project_id), row.slice_task_id)
            await repository.delete_project(session, project_id)
        self._wake_outbox()
        return pb.DeleteVideoProjectResponse()

    async def ListClips(self, request: pb.ListClipsRequest, context: Context) -> pb.ListClipsResponse:
        """Read a page of a project's clips in order."""
        project_id = parse_id(request.video_project_id, "video_project_id")
        size = page_size(request.page_size)
        position = decode_token(request.page_token, request, int)
        after = position[0] if position else -1
        async with self._database.begin() as session:
            await repository.get_project(session, project_id)
            rows = await repository.list_clips(session, project_id, after=after, limit=size + 1)
        page = within_budget([clip_message(row) for row in rows[:size]])
        token = encode_token([page[-1].position], request) if len(rows) > len(page) else ""
        return pb.ListClipsResponse(clips=page, next_page_token=token)

    async def DownloadMedia(
        self, request: pb.DownloadMediaRequest, context: Context
    ) -> AsyncIterator[pb.DownloadMediaResponse]:
        """Stream a clip, its still picture, a draft or a recording: what it is first, then its bytes."""
        async for answer in self._downloads.download(request):
            yield answer

    async def CreateEditingDraft(
        self, request: pb.CreateEditingDraftRequest, context: Context
    ) -> pb.CreateEditingDraftResponse:
        """Create a draft of a completed project and, in the same transaction, the outbox row of its task."""
        return await self._drafts.create(request)

    async def GetEditingDraft(
        self, request: pb.GetEditingDraftRequest, context: Context
    ) -> pb.GetEditingDraftResponse:
        """Read one draft."""
        return await self._drafts.get(request)

    async def ListEditingDrafts(
        self, request: pb.ListEditingDraftsRequest, context: Context
    ) -> pb.ListEditingDraftsResponse:
        """Read a page of drafts, newest first."""
        return await self._drafts.list(request)

    async def DeleteEditingDraft(
        self, request: pb.DeleteEditingDraftRequest, context: Context
    ) -> pb.DeleteEditingDraftResponse:
        """Remove a draft; a task that waits is cancelled, the stored file goes afterwards."""
        return await self._drafts.delete(request)


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
    link_to(material.trace_parent)
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
        "slice_task_id": uuid7(),
        "trace_parent": present_trace(),
        **_ways(request),
    }


def _ways(request: pb.CreateVideoProjectRequest) -> dict[str, str]:
    """Make the columns that say how the clips are cut and whether a draft of them follows.

    Raises:
        InvalidArgument: something about a draft is said where none is made.
    """
    mode = stored_name(MODE, request.mode, default=AI_SLICE)
    makes_draft = mode == AI_SLICE_DRAFT
    draft = stored_name(DRAFT_FORMAT, request.draft_format, default="otio") if makes_draft else ""
    if request.draft_format and not makes_draft:
        raise InvalidArgument.of_field("draft_format", "needs the mode AI_SLICE_DRAFT")
    check_draft_root(request.draft_root, draft)
    cut = stored_name(CUT_MODE, request.cut_mode, default="exact")
    return {"mode": mode, "draft_format": draft, "draft_root": request.draft_root, "cut_mode": cut}


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
