"""DraftService: the editors' desk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
from frontrow.review.v1 import draft_pb2, draft_service_pb2_grpc
from frontrow.review.v1 import draft_service_pb2 as pb

from libs.common import paging
from libs.common.db import Database
from libs.common.errors import FieldViolation, InvalidArgument
from libs.common.interceptors.context import current_actor
from libs.common.lanes import Lanes
from libs.common.tracing import link_to
from services.review import promotion, repository_change, repository_list
from services.review.changes import Wanted
from services.review.convert_draft import (
    draft_message,
    edit_of,
    event_message,
    statuses,
    tables_of,
    whole_draft_message,
)
from services.review.convert_media import info_message, min_width_of
from services.review.desk import Desk, Outcome, not_found
from services.review.keys import SourceKey
from services.review.models import RUNWAY, GalleryTables
from services.review.renditions import Info, Renditions
from services.review.repository_list import DraftFilter
from services.review.states import Action

# beside 500 images with long captions and addresses in a message of at most 4 MiB
MAX_HISTORY_BYTES = 512 * 1024
Context = grpc.aio.ServicerContext[Any, Any]


class DraftServicer(draft_service_pb2_grpc.DraftServiceServicer):
    """Lists and changes drafts on behalf of editors."""

    def __init__(self, database: Database, lanes: Lanes, renditions: Renditions, desk: Desk) -> None:
        self._database = database
        self._lanes = lanes
        self._desk = desk
        self._renditions = renditions

    async def ListDrafts(self, request: pb.ListDraftsRequest, context: Context) -> pb.ListDraftsResponse:
        """See the proto."""
        tables, limit = tables_of(request.kind), paging.page_size(request.page_size)
        position = paging.decode_token(request.page_token, request, int)
        before = position[0] if position else None
        wanted = _filter_of(tables, request)
        async with self._lanes.statements() as connection:
            found = await repository_list.list_drafts(
                connection, tables, wanted, before_id=before, limit=limit + 1
            )
        shown = paging.within_budget(draft_message(draft) for draft in found[:limit])
        more = len(found) > len(shown)
        token = paging.encode_token([found[len(shown) - 1].id], request) if more else ""
        return pb.ListDraftsResponse(drafts=shown, next_page_token=token)

    async def GetDraft(self, request: pb.GetDraftRequest, context: Context) -> pb.GetDraftResponse:
        """See the proto."""
        tables, draft_id = tables_of(request.kind), int(request.draft_id)
        async with self._lanes.statements() as connection:
            seen = await repository_change.look(connection, tables, draft_id)
            if seen is None:
                raise not_found(tables, draft_id)
            events = await repository_change.history(connection, seen.draft)
        async with self._database.statements() as session:
            key = seen.draft.counted_key
            official = None if key is None else await promotion.find_official(session, key)
        newest_first = (event_message(seen.draft, event) for event in reversed(events))
        shown = paging.within_budget(newest_first, MAX_HISTORY_BYTES)
        return pb.GetDraftResponse(
            draft=whole_draft_message(seen.draft, seen.images, official.id if official else None),
            history=shown[::-1],
        )

    async def UpdateDraft(self, request: pb.UpdateDraftRequest, context: Context) -> pb.UpdateDraftResponse:
        """See the proto."""
        edit = edit_of(tables_of(request.kind), request.edit)
        wanted = Wanted(Action.EDITED, current_actor(), request.etag, edit=edit)
        return pb.UpdateDraftResponse(draft=await self._changed(request.kind, request.draft_id, wanted))

    async def ApproveDraft(
        self, request: pb.ApproveDraftRequest, context: Context
    ) -> pb.ApproveDraftResponse:
        """See the proto."""
        tables = tables_of(request.kind)
        edit = edit_of(tables, request.edit) if request.HasField("edit") else None
        wanted = Wanted(Action.APPROVED, current_actor(), request.etag, edit=edit)
        outcome = await self._change(tables, request.draft_id, wanted)
        official = outcome.official
        return pb.ApproveDraftResponse(
            draft=_message(outcome),
            official_id=str(official.id) if official else "",
            published=official is not None and official.published,
        )

    async def RejectDraft(self, request: pb.RejectDraftRequest, context: Context) -> pb.RejectDraftResponse:
        """See the proto."""
        wanted = Wanted(Action.REJECTED, current_actor(), request.etag, reason=request.reason)
        return pb.RejectDraftResponse(draft=await self._changed(request.kind, request.draft_id, wanted))

    async def ReopenDraft(self, request: pb.ReopenDraftRequest, context: Context) -> pb.ReopenDraftResponse:
        """See the proto."""
        wanted = Wanted(Action.REOPENED, current_actor(), request.etag)
        return pb.ReopenDraftResponse(draft=await self._changed(request.kind, request.draft_id, wanted))

    async def DeleteDraft(self, request: pb.DeleteDraftRequest, context: Context) -> pb.DeleteDraftResponse:
        """See the proto."""
        wanted = Wanted(Action.DELETED, current_actor(), request.etag)
        return pb.DeleteDraftResponse(draft=await self._changed(request.kind, request.draft_id, wanted))

    async def UndeleteDraft(
        self, request: pb.UndeleteDraftRequest, context: Context
    ) -> pb.UndeleteDraftResponse:
        """See the proto."""
        wanted = Wanted(Action.UNDELETED, current_actor(), request.etag)
        return pb.UndeleteDraftResponse(draft=await self._changed(request.kind, request.draft_id, wanted))

    async def PurgeDraft(self, request: pb.PurgeDraftRequest, context: Context) -> pb.PurgeDraftResponse:
        """See the proto."""
        wanted = Wanted(Action.PURGED, current_actor(), request.etag, reason=request.reason)
        await self._change(tables_of(request.kind), request.draft_id, wanted)
        return pb.PurgeDraftResponse()

    async def GetDraftMedia(
        self, request: pb.GetDraftMediaRequest, context: Context
    ) -> AsyncIterator[pb.GetDraftMediaResponse]:
        """See the proto."""
        width = min_width_of(request.size, request.min_width)
        row = await self._renditions.find(request.media_key, min_width=width, public=False)
        async for part in self._renditions.stored(row):
            if isinstance(part, Info):
                yield pb.GetDraftMediaResponse(info=info_message(part))
            else:
                yield pb.GetDraftMediaResponse(chunk=part)

    async def _changed(
        self, kind: draft_pb2.GalleryKind.ValueType, draft_id: str, wanted: Wanted
    ) -> draft_pb2.Draft:
        return _message(await self._change(tables_of(kind), draft_id, wanted))

    async def _change(self, tables: GalleryTables, draft_id: str, wanted: Wanted) -> Outcome:
        """Do it; in the traces the act points at what brought the draft in."""
        outcome = await self._desk.change(tables, int(draft_id), wanted)
        link_to(outcome.draft.trace_parent)
        return outcome


def _message(outcome: Outcome) -> draft_pb2.Draft:
    """Return the changed draft with its images."""
    official = outcome.official
    return whole_draft_message(outcome.draft, outcome.images, official.id if official else None)


def _filter_of(tables: GalleryTables, request: pb.ListDraftsRequest) -> DraftFilter:
    """Return the filter; one of the other kind's fields is refused, since it could only mean nothing.

    Raises:
        InvalidArgument: naming the fields.
    """
    foreign = ("city", "year", "month") if tables is RUNWAY else ("brand", "season")
    set_ones = [name for name in foreign if getattr(request, name)]
    if set_ones:
        told = f"doesn't filter {tables.kind} drafts"
        raise InvalidArgument(
            f"{', '.join(set_ones)} {told}", violations=[FieldViolation(name, told) for name in set_ones]
        )
    return DraftFilter(
        statuses=tuple(statuses(request.statuses)),
        source=SourceKey.of(request.source, "").source,
        city=request.city,
        year=request.year,
        month=request.month,
        brand=request.brand,
        season=request.season,
        show_deleted=request.show_deleted,
    )
