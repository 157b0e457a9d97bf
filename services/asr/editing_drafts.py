"""Editing drafts for VideoProjectService: ask for one, read, list and delete them (domain.md 2.10)."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from frontrow.asr.v1 import video_project_service_pb2 as pb
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database, constraint_of
from libs.common.errors import InvalidArgument
from libs.common.ids import uuid7
from libs.common.paging import decode_token, encode_token, page_size, within_budget
from libs.common.tracing import link_to
from services.asr import repository_draft as repository
from services.asr.convert import parse_id
from services.asr.convert_project import DRAFT_FORMAT, digest_of, draft_message, stored_name
from services.asr.errors import (
    EditingDraftBusy,
    EditingDraftNotFound,
    RequestIdReused,
    VideoProjectNotCompleted,
)
from services.asr.peers import draft_subject, enqueue_cancel, enqueue_draft
from services.asr.repository_project import AnyRow, get_project, not_found
from services.asr.states_project import ProjectStatus

JIANYING = "jianying"


class EditingDrafts:
    """The drafts of all projects; each method is one transaction."""

    def __init__(self, database: Database, wake_outbox: Callable[[], None]) -> None:
        """`wake_outbox` is called after a commit that left a call to the task service in the outbox."""
        self._database = database
        self._wake_outbox = wake_outbox

    async def create(self, request: pb.CreateEditingDraftRequest) -> pb.CreateEditingDraftResponse:
        """Create the draft's row and the outbox row of its task.

        Raises:
            VideoProjectNotFound, VideoProjectNotCompleted, ClipNotFound, InvalidArgument, RequestIdReused.
        """
        project_id = parse_id(request.video_project_id, "video_project_id")
        digest = digest_of(request)
        async with self._database.begin() as session:
            known = await _known(session, request.request_id, digest)
            if known is not None:
                return pb.CreateEditingDraftResponse(editing_draft=draft_message(known), created=False)
            project = await _completed_project(session, project_id)
            values = await _values(session, project_id, request)
            created = await _insert(session, {**values, "request_digest": digest})
            if created:
                await enqueue_draft(session, values, project)
                row = await repository.get_draft(session, values["id"])
            else:
                row = await _made_meanwhile(session, request.request_id, digest)
        self._wake_outbox()
        return pb.CreateEditingDraftResponse(editing_draft=draft_message(row), created=created)

    async def get(self, request: pb.GetEditingDraftRequest) -> pb.GetEditingDraftResponse:
        """Read one draft. Raises: EditingDraftNotFound."""
        draft_id = parse_id(request.editing_draft_id, "editing_draft_id")
        async with self._database.begin() as session:
            row = await repository.get_draft(session, draft_id)
        return pb.GetEditingDraftResponse(editing_draft=draft_message(row))

    async def list(self, request: pb.ListEditingDraftsRequest) -> pb.ListEditingDraftsResponse:
        """Read a page of drafts, newest first. Raises: VideoProjectNotFound."""
        size = page_size(request.page_size)
        position = decode_token(request.page_token, request, UUID)
        before = position[0] if position else None
        wanted = request.video_project_id
        project_id = parse_id(wanted, "video_project_id") if wanted else None
        async with self._database.begin() as session:
            if project_id is not None:
                await get_project(session, project_id)
            rows = await repository.list_drafts(session, project_id, before=before, limit=size + 1)
        page = within_budget([draft_message(row) for row in rows[:size]])
        token = encode_token([UUID(page[-1].id)], request) if len(rows) > len(page) else ""
        return pb.ListEditingDraftsResponse(editing_drafts=page, next_page_token=token)

    async def delete(self, request: pb.DeleteEditingDraftRequest) -> pb.DeleteEditingDraftResponse:
        """Remove a draft that no run works on; a task that waits is cancelled.

        Raises:
            EditingDraftNotFound, EditingDraftBusy.
        """
        draft_id = parse_id(request.editing_draft_id, "editing_draft_id")
        async with self._database.begin() as session:
            row = await repository.get_draft(session, draft_id, for_update=True)
            if row.draft_status == ProjectStatus.PROCESSING:
                raise EditingDraftBusy(
                    f"a run on the draft is on; cancel task {row.draft_task_id} first",
                    task_id=str(row.draft_task_id),
                )
            if row.draft_status == ProjectStatus.PENDING:
                await enqueue_cancel(session, draft_subject(draft_id), row.draft_task_id)
            await repository.delete_draft(session, row)
        self._wake_outbox()
        return pb.DeleteEditingDraftResponse()


def check_draft_root(draft_root: str, draft_format: str) -> None:
    """Refuse a folder of drafts that no draft would be written for, or that is no absolute path.

    Raises:
        InvalidArgument: by field.
    """
    if not draft_root:
        return
    if draft_format != JIANYING:
        raise InvalidArgument.of_field("draft_root", "is for JIANYING drafts only; leave it empty")
    absolute = draft_root.startswith(("/", "\\\\")) or draft_root[1:3] in (":/", ":\\")
    if not absolute or not draft_root.isprintable():
        raise InvalidArgument.of_field(
            "draft_root", "must be a whole path, such as C:/Users/me/JianyingPro Drafts"
        )


async def _completed_project(session: AsyncSession, project_id: UUID) -> AnyRow:
    project = await repository.project_for_draft(session, project_id)
    if project is None:
        raise not_found(project_id)
    if project.status != ProjectStatus.COMPLETED:
        raise VideoProjectNotCompleted(
            f"the project is {project.status}; a draft can be made once it is completed",
            status=project.status,
        )
    link_to(project.trace_parent)
    return project


async def _values(
    session: AsyncSession, project_id: UUID, request: pb.CreateEditingDraftRequest
) -> dict[str, Any]:
    """Check the request and make the new draft's columns. Raises: ClipNotFound, InvalidArgument."""
    clip_ids = [str(parse_id(text, f"clip_ids[{i}]")) for i, text in enumerate(request.clip_ids)]
    if len(set(clip_ids)) < len(clip_ids):
        raise InvalidArgument.of_field("clip_ids", "must name each clip once")
    await repository.clips_of_draft(session, project_id, clip_ids)
    draft_format = stored_name(DRAFT_FORMAT, request.format, default="otio")
    check_draft_root(request.draft_root, draft_format)
    return {
        "id": uuid7(),
        "video_project_id": project_id,
        "request_id": request.request_id,
        "format": draft_format,
        "clip_ids": clip_ids,
        "draft_root": request.draft_root,
        "draft_task_id": uuid7(),
    }


async def _known(session: AsyncSession, request_id: str, digest: str) -> AnyRow | None:
    """Return the draft that was made under this request id, or None.

    Raises:
        RequestIdReused: it was made of another request.
    """
    row = await repository.draft_of_request(session, request_id) if request_id else None
    if row is not None and row.request_digest != digest:
        raise RequestIdReused(
            "this request_id belongs to another request; choose a new one", editing_draft_id=str(row.id)
        )
    return row


async def _insert(session: AsyncSession, values: dict[str, Any]) -> bool:
    """Insert the draft; False when another call with the same request id was quicker."""
    try:
        async with session.begin_nested():
            await repository.insert_draft(session, values)
    except IntegrityError as error:
        if constraint_of(error) == "editing_drafts_request_key":
            return False
        raise
    return True


async def _made_meanwhile(session: AsyncSession, request_id: str, digest: str) -> AnyRow:
    """Return the draft that a call at the same time has made under this request id.

    Raises:
        RequestIdReused: it was made of another request. EditingDraftNotFound: it has been deleted since.
    """
    row = await _known(session, request_id, digest)
    if row is None:
        raise EditingDraftNotFound("the draft made under this request_id has just been deleted")
    return row
