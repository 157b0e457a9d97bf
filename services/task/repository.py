"""Read tasks, and what people do to them. Functions take the session first and never commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Boolean,
    ColumnElement,
    RowMapping,
    Select,
    and_,
    case,
    func,
    literal_column,
    or_,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common import keywords
from services.task.models import DELAYED, FRESH, NAMED, RETURNED, RUNNING, task_runs, tasks
from services.task.states import CANCELLABLE, RETRYABLE, Status

LISTED = [column for column in tasks.c if column.name not in {"payload", "ext", "content_sha256"}]

# Each status as the predicates of its indices: a parameter in their place would hide those from the planner.
_OF_STATUS: Mapping[Status, Sequence[str]] = {
    Status.PENDING: (FRESH, RETURNED, DELAYED),
    Status.PROCESSING: (RUNNING,),
    **{status: (f"status = '{status}'",) for status in (Status.COMPLETED, *RETRYABLE)},
}


@dataclass(frozen=True)
class TaskFilter:
    """What must hold of a task; an empty part filters nothing."""

    types: Sequence[str] = ()
    statuses: Sequence[str] = ()
    keyword_text: str = ""
    subject: str = ""
    created_after: datetime | None = None
    created_before: datetime | None = None
    task_ids: Sequence[UUID] = ()

    def condition(self) -> ColumnElement[bool]:
        """Return the filter as SQL; keywords look into both names (domain.md 1.14)."""
        groups = keywords.parse(self.keyword_text)
        parts: list[ColumnElement[bool]] = [
            keywords.to_sql(groups, [tasks.c.video_project_name, tasks.c.live_material_name])
        ]
        if self.types:
            parts.append(tasks.c.type.in_(self.types))
        if groups:
            parts.append(literal_column(f"({NAMED})", Boolean))
        if self.statuses:
            arms = [arm for status in self.statuses for arm in _OF_STATUS[Status(status)]]
            parts.append(or_(*(literal_column(f"({arm})", Boolean) for arm in arms)))
        if self.subject:
            parts.append(and_(tasks.c.subject == self.subject, tasks.c.subject != ""))
        if self.created_after is not None:
            parts.append(tasks.c.created_at >= self.created_after)
        if self.created_before is not None:
            parts.append(tasks.c.created_at < self.created_before)
        if self.task_ids:
            parts.append(tasks.c.id.in_(self.task_ids))
        return and_(*parts)


async def walk_no_table(session: AsyncSession) -> None:
    """Keep the planner, whose statistics may be old, from reading all tasks until the transaction ends."""
    await session.execute(text("SET LOCAL enable_seqscan = off"))


async def get(session: AsyncSession, task_id: UUID) -> RowMapping | None:
    """Return a task with its payload, None when there is none."""
    return (await session.execute(select(tasks).where(tasks.c.id == task_id))).mappings().one_or_none()


async def get_many(session: AsyncSession, task_ids: Sequence[UUID]) -> dict[UUID, RowMapping]:
    """Return those of the tasks that exist, without payload."""
    rows = (await session.execute(select(*LISTED).where(tasks.c.id.in_(task_ids)))).mappings()
    return {row["id"]: row for row in rows}


async def page(
    session: AsyncSession, wanted: TaskFilter, *, after: tuple[datetime, UUID] | None, limit: int
) -> Sequence[RowMapping]:
    """Return up to `limit` tasks, newest first, behind `after` (creation time, id); no payload."""
    found = await session.execute(page_query(wanted, after=after, limit=limit))
    rows: Sequence[RowMapping] = found.mappings().all()
    return rows


def page_query(
    wanted: TaskFilter, *, after: tuple[datetime, UUID] | None, limit: int
) -> Select[tuple[Any, ...]]:
    """Return the query of `page`."""
    query = select(*LISTED).where(wanted.condition())
    if after is not None:
        query = query.where(tuple_(tasks.c.created_at, tasks.c.id) < tuple_(*after))
    return query.order_by(tasks.c.created_at.desc(), tasks.c.id.desc()).limit(limit)


async def lock(session: AsyncSession, task_id: UUID) -> str | None:
    """Lock a task until the transaction ends; return its status, None when there is none."""
    query = select(tasks.c.status).where(tasks.c.id == task_id).with_for_update()
    return (await session.execute(query)).scalar_one_or_none()


async def request_cancel(session: AsyncSession, task_id: UUID) -> RowMapping | None:
    """Cancel a pending task at once, ask a running one to stop; return it, None when it is neither.

    Precondition: pending or processing. A running task keeps its version; a repeated request keeps the first
    time (domain.md 1.10).
    """
    pending = tasks.c.status == Status.PENDING
    now = func.now()
    statement = (
        update(tasks)
        .where(tasks.c.id == task_id, tasks.c.status.in_([str(status) for status in CANCELLABLE]))
        .values(
            status=case((pending, str(Status.CANCELLED)), else_=tasks.c.status),
            version=tasks.c.version + case((pending, 1), else_=0),
            status_reason=case((pending, "CANCELLED"), else_=tasks.c.status_reason),
            completed_at=case((pending, now), else_=tasks.c.completed_at),
            due_at=case((pending, None), else_=tasks.c.due_at),
            cancel_requested_at=func.coalesce(tasks.c.cancel_requested_at, now),
        )
        .returning(*LISTED)
    )
    return (await session.execute(statement)).mappings().one_or_none()


async def retry(session: AsyncSession, task_id: UUID) -> RowMapping | None:
    """Put a failed or cancelled task back into the queue as new; return it, None when it is neither.

    Precondition: failed or cancelled. Results, error and attempts are cleared, the version rises and the task
    queues anew (domain.md 1.9).
    """
    now = func.now()
    statement = (
        update(tasks)
        .where(tasks.c.id == task_id, tasks.c.status.in_([str(status) for status in RETRYABLE]))
        .values(
            status=str(Status.PENDING),
            version=tasks.c.version + 1,
            attempts=0,
            progress=0,
            ext=b"",
            error_message="",
            status_reason="",
            draft_url="",
            video_url="",
            clips_url="",
            completed_at=None,
            cancel_requested_at=None,
            run_after=None,
            due_at=None,
            queued_at=now,
            claim_order=now - func.make_interval(0, 0, 0, 0, 0, 0, tasks.c.priority * 60.0),
        )
        .returning(*LISTED)
    )
    return (await session.execute(statement)).mappings().one_or_none()


async def update_urls(
    session: AsyncSession, task_id: UUID, version: int, urls: Mapping[str, str]
) -> RowMapping | None:
    """Store addresses on a live run; return the task, None when the run is not live (domain.md 1.3).

    Precondition: the run of this version is claimed and not completed.
    """
    values: dict[str, Any] = dict(urls) or {"version": tasks.c.version}
    statement = (
        update(tasks)
        .where(
            tasks.c.id == task_id,
            tasks.c.version == version,
            tasks.c.claimed_by.is_not(None),
            tasks.c.completed_at.is_(None),
        )
        .values(values)
        .returning(*LISTED)
    )
    return (await session.execute(statement)).mappings().one_or_none()


async def count_late_write(session: AsyncSession, task_id: UUID, version: int) -> None:
    """Count a refused write on the record of the run it came from."""
    await session.execute(
        update(task_runs)
        .where(task_runs.c.task_id == task_id, task_runs.c.version == version)
        .values(late_writes=task_runs.c.late_writes + 1)
    )
