"""SQL of live materials. Every function takes the session first and never commits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, delete, exists, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common import keywords
from libs.common.db import constraint_of
from libs.common.tracing import present_trace
from services.asr import transcript_terms
from services.asr.errors import AsrNotCancellable, AsrNotResettable, MaterialNotFound, NameTaken, UploadTaken
from services.asr.models import (
    doomed_objects,
    live_materials,
    transcript_paragraphs,
    transcript_parts,
    transcripts,
)
from services.asr.states import CANCELLABLE, RESETTABLE, AsrStatus

COLUMNS = (
    *(column for column in live_materials.c if column.name not in {"request_digest", "request_id"}),
    exists().where(transcripts.c.material_id == live_materials.c.id).label("has_transcript"),
)


@dataclass(frozen=True)
class ListFilter:
    """What a list of materials is narrowed to; empty parts don't narrow."""

    keyword_groups: list[list[str]]
    transcript_groups: list[list[str]]
    statuses: Sequence[str]


def not_found(material_id: UUID) -> MaterialNotFound:
    """Make the error for an unknown material."""
    return MaterialNotFound(
        f"no live material {material_id}; it may have been deleted", material_id=str(material_id)
    )


async def get(session: AsyncSession, material_id: UUID, *, for_update: bool = False) -> Row[Any]:
    """Read one material, locked when asked for.

    Raises:
        MaterialNotFound: there is none.
    """
    query = select(*COLUMNS).where(live_materials.c.id == material_id)
    if for_update:
        query = query.with_for_update(of=live_materials)
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise not_found(material_id)
    return row


async def find_by_request(session: AsyncSession, request_id: str) -> tuple[UUID, str] | None:
    """Return (id, request digest) of the material that this request id made; None when it made none."""
    query = select(live_materials.c.id, live_materials.c.request_digest)
    row = (await session.execute(query.where(live_materials.c.request_id == request_id))).one_or_none()
    return None if row is None else (row.id, row.request_digest)


async def create(session: AsyncSession, values: dict[str, Any]) -> bool:
    """Insert a material; False when its request id has made one meanwhile.

    Raises:
        NameTaken, UploadTaken: another material has the name, or was made of the upload.
    """
    try:
        async with session.begin_nested():
            await session.execute(insert(live_materials).values(values))
    except IntegrityError as error:
        constraint = constraint_of(error)
        if constraint == "live_materials_request_key":
            return False
        if constraint == "live_materials_name_key":
            raise _name_taken(values["name"]) from error
        if constraint == "live_materials_upload_key":
            raise UploadTaken(
                "another live material was made of this upload; upload the recording again",
                upload_id=str(values["upload_id"]),
            ) from error
        raise
    return True


def _name_taken(name: str) -> NameTaken:
    return NameTaken(f"a live material named {name!r} exists; choose another name", name=name)


async def list_page(
    session: AsyncSession, wanted: ListFilter, *, before: UUID | None, limit: int
) -> Sequence[Row[Any]]:
    """Read a page, newest first (ids follow time); neither transcripts nor paragraphs are read."""
    query = select(*COLUMNS).order_by(live_materials.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(live_materials.c.id < before)
    if wanted.statuses:
        query = query.where(live_materials.c.asr_status.in_(wanted.statuses))
    if wanted.keyword_groups:
        columns = (live_materials.c.name, live_materials.c.remark)
        query = query.where(keywords.to_sql(wanted.keyword_groups, columns))
    if wanted.transcript_groups:
        # all words of a group in the same paragraph (domain.md 1.15)
        spoken = transcript_terms.condition(wanted.transcript_groups)
        query = query.where(
            exists().where(transcript_paragraphs.c.material_id == live_materials.c.id, spoken)
        )
    return (await session.execute(query)).all()


async def update_name_remark(session: AsyncSession, material_id: UUID, values: dict[str, str]) -> None:
    """Write name, remark or both, and nothing else (domain.md 2.8).

    Raises:
        MaterialNotFound: there is none.
        NameTaken: another material has the name.
    """
    statement = update(live_materials).where(live_materials.c.id == material_id)
    try:
        async with session.begin_nested():
            result = await session.execute(
                statement.values(**values, updated_at=func.now()).returning(live_materials.c.id)
            )
    except IntegrityError as error:
        if constraint_of(error) == "live_materials_name_key":
            raise _name_taken(values["name"]) from error
        raise
    if result.one_or_none() is None:
        raise not_found(material_id)


async def reset_to_pending(session: AsyncSession, material_id: UUID, task_id: UUID) -> None:
    """Point a material at a new task: pending, nothing seen of it yet (domain.md 2.8).

    Takes effect from none, failed and completed. From failed the kept parts stay; from completed they go, and
    the old transcript stays readable.

    Raises:
        MaterialNotFound: there is none.
        AsrNotResettable: a transcription is pending or running.
    """
    mine = (live_materials.c.id == material_id) & live_materials.c.asr_status.in_(RESETTABLE)
    before = (
        select(live_materials.c.id, live_materials.c.asr_status).where(mine).with_for_update().cte("before")
    )
    of_a_result = (transcript_parts.c.material_id == before.c.id) & (
        before.c.asr_status == AsrStatus.COMPLETED
    )
    dropped = delete(transcript_parts).where(of_a_result).cte("dropped")
    pending = update(live_materials).where(live_materials.c.id == before.c.id)
    written = pending.values(
        asr_status=AsrStatus.PENDING,
        asr_task_id=task_id,
        trace_parent=present_trace(),
        seen_task_version=0,
        asr_progress=0,
        asr_error_reason="",
        asr_error="",
        cancel_requested=False,
        updated_at=func.now(),
    )
    statement = written.returning(live_materials.c.id).add_cte(dropped)
    if (await session.execute(statement)).one_or_none() is None:
        row = await get(session, material_id)
        raise AsrNotResettable(
            f"the transcription is {row.asr_status}; cancel it first, or wait until it has ended",
            state=row.asr_status,
        )


async def request_cancel(session: AsyncSession, material_id: UUID) -> UUID:
    """Note that a cancellation was asked for; returns the task to cancel.

    Raises:
        MaterialNotFound: there is none.
        AsrNotCancellable: nothing is pending or running.
    """
    mine = (live_materials.c.id == material_id) & live_materials.c.asr_status.in_(CANCELLABLE)
    statement = update(live_materials).where(mine).values(cancel_requested=True)
    task_id: UUID | None = (
        await session.execute(statement.returning(live_materials.c.asr_task_id))
    ).scalar_one_or_none()
    if task_id is None:
        row = await get(session, material_id)
        raise AsrNotCancellable(
            f"the transcription is {row.asr_status}: there is nothing to cancel", state=row.asr_status
        )
    return task_id


async def doom(session: AsyncSession, keys: Sequence[str]) -> None:
    """Have objects removed once this transaction has committed; a key that ends with '/' is a prefix.

    Nothing may be doomed that anybody may want again: a removal under way can't be called back. A key that
    is doomed already begins anew, since more may have been stored below it meanwhile.
    """
    anew = {"passes": 0, "not_before": func.now(), "created_at": func.clock_timestamp()}
    statement = upsert(doomed_objects).on_conflict_do_update(index_elements=["key"], set_=anew)
    # in one order, so that no two transactions wait for each other
    rows = [{"key": key} for key in sorted(keys)]
    if rows:
        await session.execute(statement, rows)
