"""SQL of removing jobs for good. No function commits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from services.ingest.models import audit_log, jobs
from services.ingest.states import FOLLOWED

PURGE_BATCH = 500


class Counts(NamedTuple):
    """Jobs of a source by whether they have ended."""

    ended: int
    still_open: int


def _of_source(source: str, created_before: datetime | None) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = [jobs.c.source == source]
    if created_before is not None:
        found.append(jobs.c.created_at < created_before)
    return found


async def count(session: AsyncSession, source: str, created_before: datetime | None) -> Counts:
    """Count the jobs of a source, submitted before a time if one is given."""
    still_open = jobs.c.status.in_(FOLLOWED)
    query = select(func.count().filter(~still_open), func.count().filter(still_open)).where(
        *_of_source(source, created_before)
    )
    row = (await session.execute(query)).one()
    return Counts(row[0], row[1])


async def purge(session: AsyncSession, source: str, created_before: datetime | None) -> int:
    """Remove up to a batch of ended jobs of a source with their images, and return how many those were.

    A job that is run again at the same time stays, or is gone before: its row's lock decides.
    """
    batch = (
        select(jobs.c.id)
        .where(*_of_source(source, created_before), jobs.c.status.not_in(FOLLOWED))
        .order_by(jobs.c.id)
        .limit(PURGE_BATCH)
        .with_for_update()
    )
    gone = await session.execute(
        delete(jobs).where(jobs.c.id.in_(batch.scalar_subquery())).returning(jobs.c.id)
    )
    return len(gone.all())


async def note(session: AsyncSession, action: str, actor: str, details: Mapping[str, Any]) -> None:
    """Write down who did what, in the transaction that does it."""
    await session.execute(insert(audit_log).values(action=action, actor=actor, details=dict(details)))
