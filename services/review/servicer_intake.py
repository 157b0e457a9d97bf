"""IntakeService: what the ingest worker needs of review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import grpc
from frontrow.review.v1 import intake_service_pb2 as pb
from frontrow.review.v1 import intake_service_pb2_grpc
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database, constraint_of
from libs.common.errors import FieldViolation, InvalidArgument
from libs.common.tracing import present_trace
from services.review import promotion, repository_draft, repository_media, repository_vocabulary
from services.review.convert_draft import blocker_message, runway_texts, street_texts, tables_of
from services.review.convert_media import item_state, new_media, row_ids
from services.review.drafts import Draft
from services.review.errors import ReviewBusy, SourceExists
from services.review.keys import SourceKey
from services.review.models import RUNWAY, STREET, GalleryTables
from services.review.places import Texts

INGEST = "ingest"
MAX_TRIES = 3
Context = grpc.aio.ServicerContext[Any, Any]
_CreateRequest = pb.CreateRunwayDraftRequest | pb.CreateStreetSnapDraftRequest


class IntakeServicer(intake_service_pb2_grpc.IntakeServiceServicer):
    """Answers the ingest worker; every method may be repeated."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def CheckSource(self, request: pb.CheckSourceRequest, context: Context) -> pb.CheckSourceResponse:
        """See the proto. The own draft comes first: it is no duplicate of itself (domain.md 3.8)."""
        tables, key = tables_of(request.kind), SourceKey.of(request.source, request.source_url)
        async with self._database.statements() as session:
            own = await repository_draft.find_by_job(session, tables, request.job_id)
            met = own or await repository_draft.find_by_source(session, tables, key.source, key.source_url)
        if met is None:
            return pb.CheckSourceResponse(verdict=pb.INTAKE_VERDICT_FREE)
        # by whichever look-up: a run that was given up may have made it between the two
        is_own = met.job_id == request.job_id
        verdict = pb.INTAKE_VERDICT_OWN_DRAFT if is_own else pb.INTAKE_VERDICT_SOURCE_EXISTS
        return pb.CheckSourceResponse(verdict=verdict, draft=blocker_message(met))

    async def FindOfficial(
        self, request: pb.FindOfficialRequest, context: Context
    ) -> pb.FindOfficialResponse:
        """See the proto. Visible official rows only, never drafts (domain.md 3.6)."""
        is_runway = request.WhichOneof("key") == "runway"
        tables = RUNWAY if is_runway else STREET
        texts: Texts = runway_texts(request.runway) if is_runway else street_texts(request.street_snap)
        async with self._database.begin() as session:
            own = await repository_draft.find_by_job(session, tables, request.job_id)
            if own is not None:
                return pb.FindOfficialResponse(verdict=pb.INTAKE_VERDICT_OWN_DRAFT, draft_id=str(own.id))
            place = await repository_vocabulary.resolve(session, texts, create=False)
            official = None if place.key is None else await promotion.find_official(session, place.key)
        if official is None or official.is_hidden:
            return pb.FindOfficialResponse(verdict=pb.INTAKE_VERDICT_FREE)
        return pb.FindOfficialResponse(
            verdict=pb.INTAKE_VERDICT_OFFICIAL_EXISTS,
            official_id=str(official.id),
            official_title=official.title,
        )

    async def ReserveMedia(
        self, request: pb.ReserveMediaRequest, context: Context
    ) -> pb.ReserveMediaResponse:
        """See the proto."""
        items = [new_media(item) for item in request.items]
        if len({item.key for item in items}) != len(items):
            raise InvalidArgument.of_field("items", "must name each key once")
        async with self._database.begin() as session:
            found = await repository_media.reserve(session, request.job_id, items)
        return pb.ReserveMediaResponse(items=[item_state(item.key, found[item.key]) for item in items])

    async def ConfirmMedia(
        self, request: pb.ConfirmMediaRequest, context: Context
    ) -> pb.ConfirmMediaResponse:
        """See the proto."""
        reserved = row_ids(request.keys, request.reservations)
        async with self._database.begin() as session:
            await repository_media.confirm(session, request.keys, reserved)
        return pb.ConfirmMediaResponse()

    async def CreateRunwayDraft(
        self, request: pb.CreateRunwayDraftRequest, context: Context
    ) -> pb.CreateRunwayDraftResponse:
        """See the proto."""
        draft_id, created = await self._create(RUNWAY, request, runway_texts(request.runway))
        return pb.CreateRunwayDraftResponse(draft_id=str(draft_id), created=created)

    async def CreateStreetSnapDraft(
        self, request: pb.CreateStreetSnapDraftRequest, context: Context
    ) -> pb.CreateStreetSnapDraftResponse:
        """See the proto."""
        draft_id, created = await self._create(STREET, request, street_texts(request.street_snap))
        return pb.CreateStreetSnapDraftResponse(draft_id=str(draft_id), created=created)

    async def _create(self, tables: GalleryTables, request: _CreateRequest, texts: Texts) -> tuple[int, bool]:
        """Create the draft, or return the one that the job made before, and whether it is new."""
        source = SourceKey.of(request.source, request.source_url)
        _refuse_bad_images(request.images)
        async with self._database.begin() as session:
            own = await repository_draft.find_by_job(session, tables, request.job_id)
            if own is not None:
                return own.id, False
            place = await repository_vocabulary.resolve(session, texts, create=True)
        values = {
            "job_id": request.job_id,
            "source": source.source,
            "source_url": source.source_url,
            "title": request.title,
            "trace_parent": present_trace(),
            **place.columns(),
        }
        for _ in range(MAX_TRIES):
            async with self._database.begin() as session:
                made = await _insert(session, tables, values, source)
                if made is not None and made[1]:
                    await _fill(session, tables, made[0], request)
            if made is not None:
                return made
        raise ReviewBusy("the article's draft keeps changing hands; try again")


async def _insert(
    session: AsyncSession, tables: GalleryTables, values: Mapping[str, object], source: SourceKey
) -> tuple[int, bool] | None:
    """Insert the draft, or find the one that has its job; None when what stood in the way is gone again.

    No conflict target: with the index of the source key dropped, intake goes on without that protection.

    Raises:
        SourceExists: naming the draft that has the source key.
    """
    try:
        async with session.begin_nested():
            return await repository_draft.insert_draft(session, tables, values), True
    except IntegrityError as error:
        if constraint_of(error) not in {tables.source_index, tables.job_index}:
            raise
    own = await repository_draft.find_by_job(session, tables, str(values["job_id"]))
    if own is not None:
        return own.id, False
    other = await repository_draft.find_by_source(session, tables, source.source, source.source_url)
    if other is None:
        return None
    raise _source_exists(other)


def _source_exists(draft: Draft) -> SourceExists:
    state = f"{draft.status.value}{', deleted' if draft.is_deleted else ''}"
    by = f" by {draft.decided_by}" if draft.decided_by else ""
    return SourceExists(
        f"the article came in before as draft {draft.id} ({state}{by}); an admin may purge that draft",
        draft_id=str(draft.id),
        status=draft.status.value,
        deleted="true" if draft.is_deleted else "false",
        decided_by=draft.decided_by,
        reject_reason=draft.reject_reason[:500],
    )


async def _fill(session: AsyncSession, tables: GalleryTables, draft_id: int, request: _CreateRequest) -> None:
    """Attach the images to a new draft and write its history."""
    images = {image.media_key: image for image in reversed(request.images)}
    keys = list(dict.fromkeys(image.media_key for image in request.images))
    media_ids = await repository_media.take_for_draft(session, keys)
    rows = [
        {
            "media_id": media_ids[key],
            "caption": images[key].caption,
            "original_url": images[key].original_url,
        }
        for key in keys
    ]
    await repository_draft.insert_images(session, tables, draft_id, rows)
    await repository_draft.record_creation(session, tables, draft_id, INGEST)


def _refuse_bad_images(images: Sequence[pb.IntakeImage]) -> None:
    """Refuse a gallery that names no image; the other bounds stand in the proto."""
    if not images:
        raise InvalidArgument(
            "images: a gallery has 1 to 500 images",
            violations=[FieldViolation("images", "must have 1 to 500 items")],
        )
