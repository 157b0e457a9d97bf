"""What a watch looks at: every unfinished task, by the indices of unfinished ones alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Boolean,
    CompoundSelect,
    RowMapping,
    literal_column,
    select,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncSession

from services.task.models import DELAYED, FRESH, RETURNED, RUNNING, tasks
from services.task.repository import LISTED, TaskFilter
from services.task.states import Status

SIGNATURE = ("version", "progress", "cancel_requested_at", "draft_url", "video_url", "clips_url")
"""What a watcher is told of; a task whose signature is the same is no news."""

# Together all unfinished tasks, each once, and each part the predicate of an index.
_PARTS = (
    (Status.PENDING, FRESH),
    (Status.PENDING, RETURNED),
    (Status.PENDING, DELAYED),
    (Status.PROCESSING, RUNNING),
)


def present(wanted: TaskFilter) -> CompoundSelect[Any] | None:
    """Return the query for ids and signatures of all unfinished tasks that match; None: none can match."""
    parts = [part for status, part in _PARTS if not wanted.statuses or status in wanted.statuses]
    columns = [tasks.c.id, *(tasks.c[name] for name in SIGNATURE)]
    condition = wanted.condition()
    looks = [select(*columns).where(literal_column(part, Boolean), condition) for part in parts]
    return union_all(*looks) if looks else None


async def unfinished(
    session: AsyncSession, wanted: TaskFilter
) -> AsyncIterator[tuple[UUID, tuple[Any, ...]]]:
    """Yield id and signature of each unfinished task that matches, as of one moment.

    Precondition: the transaction walks no table.
    """
    query = present(wanted)
    if query is None:
        return
    async for row in await session.stream(query):
        yield row[0], tuple(row[1:])


async def standing(session: AsyncSession, task_ids: Sequence[UUID]) -> dict[UUID, tuple[Any, ...]]:
    """Return the signatures of those of the tasks that exist."""
    columns = [tasks.c.id, *(tasks.c[name] for name in SIGNATURE)]
    rows = await session.execute(select(*columns).where(tasks.c.id.in_(task_ids)))
    return {row[0]: tuple(row[1:]) for row in rows}


async def look(
    session: AsyncSession, wanted: TaskFilter, task_ids: Sequence[UUID]
) -> Sequence[tuple[RowMapping, bool]]:
    """Return these tasks as they stand, each with whether it matches the filter; no payload."""
    query = select(*LISTED, wanted.condition().label("matches")).where(tasks.c.id.in_(task_ids))
    return [(row, row["matches"]) for row in (await session.execute(query)).mappings()]
