"""Queues as a whole: policies, counters, workers, and what is known of one task. The session comes first."""

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
    any_,
    case,
    func,
    insert,
    literal,
    literal_column,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql import bindparam
from sqlalchemy.types import Text

from services.task import statements_queue
from services.task.models import RUNNING, queue_deltas, queue_policies, task_runs, tasks, workers
from services.task.repository import walk_no_table

RATE_MINUTES = 10
MOST_AHEAD = 1_000
MOST_RUNS = 500
MOST_LEASES = 1_000
LIVE_WORKER_MINUTES = 3
READ_BY_ALL_SECONDS = 100.0
"""How long after a change a server may still tell workers what held before: the time of three reads."""

_LONGER_LEASE = case(
    (queue_policies.c.longer_lease_until > func.clock_timestamp(), queue_policies.c.longer_lease_seconds),
    else_=0.0,
)
_POLICY = (
    *queue_policies.c[
        "type", "paused", "concurrency_limit", "lease_seconds", "stall_seconds", "max_attempts"
    ],
    _LONGER_LEASE.label("longer_lease_seconds"),
)


@dataclass(frozen=True)
class Policy:
    """What a person set for a type; 0 in a number means the default, or no limit.

    `longer_lease_seconds` is the lease from before a shorter one, while a worker may still go by it; 0: none.
    """

    paused: bool = False
    concurrency_limit: int = 0
    lease_seconds: float = 0.0
    stall_seconds: float = 0.0
    max_attempts: int = 0
    longer_lease_seconds: float = 0.0


def _types(types: Sequence[str]) -> dict[str, Any]:
    return {"types": list(types)}


def _with_types(statement: str) -> Any:
    return text(statement).bindparams(bindparam("types", type_=ARRAY(Text)))


async def idle(session: AsyncSession, types: Sequence[str]) -> Sequence[RowMapping]:
    """Return of each type whether tasks are claimable, due later, paused, or at their limit."""
    await walk_no_table(session)
    return (await session.execute(_with_types(statements_queue.IDLE), _types(types))).mappings().all()


async def policies(session: AsyncSession) -> dict[str, Policy]:
    """Return every policy that was set, by type."""
    rows = (await session.execute(select(*_POLICY))).mappings()
    return {row["type"]: _policy(row) for row in rows}


async def open_policy(session: AsyncSession, task_type: str) -> bool:
    """Make sure that a type has a row, a new one without limits; return whether its runs were counted."""
    await session.execute(text(statements_queue.OPEN_POLICY), {"type": task_type})
    query = select(queue_policies.c.counted).where(queue_policies.c.type == task_type)
    return bool((await session.execute(query)).scalar_one())


async def drop_uncounted(session: AsyncSession) -> None:
    """Forget the first policies that were opened minutes ago and never set: nothing of them holds."""
    await session.execute(text(statements_queue.DROP_UNCOUNTED))


async def writers(session: AsyncSession) -> set[str]:
    """Return the transactions that write tasks just now: each took its snapshot after the lock seen here."""
    return set((await session.execute(text(statements_queue.WRITERS))).scalars())


async def set_policy(
    session: AsyncSession, task_type: str, values: Mapping[str, Any], by: str, *, usual_lease_seconds: float
) -> Policy:
    """Store the given fields of a type's policy; return the whole.

    A lease that is longer than the new one is kept beside it until every worker that was told it must have
    beaten since, or it has ended (domain.md 1.6). `usual_lease_seconds` is that of the type without a policy.

    Precondition: the row is there, and no claim or end is under way that can't see it. Its runs are counted
    unless they have been: by a statement that begins under the row's lock, which every other change of the
    count waits for.
    """
    here = queue_policies.c.type == task_type
    lock = select(queue_policies.c.counted).where(here).with_for_update()
    counted = (await session.execute(lock)).scalar_one()
    stored = {**values, "updated_at": func.now(), "updated_by": by}
    if not counted:
        of_type = (tasks.c.type == task_type, literal_column(f"({RUNNING})", Boolean))
        running = select(func.count()).select_from(tasks).where(*of_type).scalar_subquery()
        stored |= {"running": running, "counted": True}
    if "lease_seconds" in values:
        stored |= _longer_lease(values["lease_seconds"] or usual_lease_seconds, usual_lease_seconds)
    statement = update(queue_policies).where(here).values(stored).returning(*_POLICY)
    return _policy((await session.execute(statement)).mappings().one())


def _longer_lease(seconds: float, usual_seconds: float) -> dict[str, ColumnElement[Any]]:
    """Return what to keep of the lease that the row has when it gets one of `seconds`."""
    columns = queue_policies.c
    before = case((columns.lease_seconds > 0, columns.lease_seconds), else_=usual_seconds)
    longest = func.greatest(before, _LONGER_LEASE)
    until = func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, longest + READ_BY_ALL_SECONDS)
    shorter = before > seconds
    return {
        "longer_lease_seconds": case((shorter, longest), else_=columns.longer_lease_seconds),
        "longer_lease_until": case((shorter, until), else_=columns.longer_lease_until),
    }


async def queues(
    session: AsyncSession, types: Sequence[str], *, after: str, limit: int
) -> Sequence[RowMapping]:
    """Return queues with counters, policy, flows over ten minutes, oldest pending task and live workers.

    Up to `limit` of them by type, those behind the type `after`; empty: from the first on.
    """
    values = _types(types) | {"minutes": RATE_MINUTES, "after": after, "limit": limit}
    return (await session.execute(_with_types(statements_queue.QUEUES), values)).mappings().all()


async def add_deltas(session: AsyncSession, task_type: str, **changes: int) -> None:
    """Note how a queue's counters change with this transaction."""
    await session.execute(insert(queue_deltas).values(type=task_type, **changes))


async def runs(session: AsyncSession, task_id: UUID) -> tuple[Sequence[RowMapping], int]:
    """Return the latest `MOST_RUNS` ended runs of a task, oldest first, and how many came before them."""
    of_task = task_runs.c.task_id == task_id
    latest = select(task_runs).where(of_task).order_by(task_runs.c.version.desc()).limit(MOST_RUNS)
    rows = (await session.execute(latest)).mappings().all()
    count = len(rows)
    if count == MOST_RUNS:
        count = (await session.execute(select(func.count()).where(of_task))).scalar_one()
    return rows[::-1], count - len(rows)


async def ahead(session: AsyncSession, row: RowMapping) -> int:
    """Return how many claimable tasks of its type come before a task, counted up to 1,000."""
    await walk_no_table(session)
    values = {
        "type": row["type"],
        "claim_order": row["claim_order"],
        "id": row["id"],
        "most": MOST_AHEAD,
    }
    count = (await session.execute(text(statements_queue.AHEAD), values)).scalar_one()
    return min(int(count), MOST_AHEAD)


def _live(task_type: str) -> list[ColumnElement[bool]]:
    """Return what holds of a worker that was seen lately, hasn't left, and takes this type (empty: any)."""
    seen_after = func.now() - func.make_interval(0, 0, 0, 0, 0, LIVE_WORKER_MINUTES)
    parts = [workers.c.last_seen_at > seen_after, workers.c.left_at.is_(None)]
    return [*parts, literal(task_type) == any_(workers.c.types)] if task_type else parts


async def count_live_workers(session: AsyncSession, task_type: str) -> int:
    """Return how many workers for a type were seen lately and haven't left."""
    query = select(func.count()).select_from(workers).where(*_live(task_type))
    return int((await session.execute(query)).scalar_one())


async def live_workers(
    session: AsyncSession, task_type: str, *, after: tuple[datetime, str] | None, limit: int
) -> Sequence[RowMapping]:
    """Return up to `limit` workers seen lately that haven't left, all or those of one type, the newest first.

    Those behind `after` (time first seen, id), which doesn't change as they are seen again; None: from the
    first on.
    """
    place = (workers.c.first_seen_at, workers.c.worker_id)
    query = select(workers).where(*_live(task_type))
    if after is not None:
        query = query.where(tuple_(*place) < tuple_(*after))
    query = query.order_by(*(column.desc() for column in place)).limit(limit)
    return (await session.execute(query)).mappings().all()


async def leases(session: AsyncSession, worker_ids: Sequence[str]) -> dict[str, list[RowMapping]]:
    """Return the live runs of these workers, oldest first, by worker."""
    query = select(
        tasks.c.id, tasks.c.type, tasks.c.version, tasks.c.claimed_by, tasks.c.progress, tasks.c.heartbeat_at
    ).where(literal_column(f"({RUNNING})", Boolean), tasks.c.claimed_by.in_(worker_ids))
    held: dict[str, list[RowMapping]] = {}
    for row in (await session.execute(query.order_by(tasks.c.started_at))).mappings():
        held.setdefault(row["claimed_by"], []).append(row)
    return held


def _policy(row: RowMapping) -> Policy:
    return Policy(**{name: row[name] for name in Policy.__dataclass_fields__})
