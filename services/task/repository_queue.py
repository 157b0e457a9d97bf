"""Queues as a whole: policies, counters, workers, and what is known of one task. The session comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, any_, func, insert, literal, select, text, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql import bindparam
from sqlalchemy.types import Text

from services.task import statements_queue
from services.task.models import queue_deltas, queue_policies, task_runs, tasks, workers

RATE_MINUTES = 10
MOST_AHEAD = 1_000
LIVE_WORKER_MINUTES = 3


@dataclass(frozen=True)
class Policy:
    """What a person set for a type; 0 in a number means the default, or no limit."""

    paused: bool = False
    concurrency_limit: int = 0
    lease_seconds: float = 0.0
    stall_seconds: float = 0.0
    max_attempts: int = 0


def _types(types: Sequence[str]) -> dict[str, Any]:
    return {"types": list(types)}


def _with_types(statement: str) -> Any:
    return text(statement).bindparams(bindparam("types", type_=ARRAY(Text)))


async def idle(session: AsyncSession, types: Sequence[str]) -> Sequence[RowMapping]:
    """Return of each type whether tasks are claimable, due later, paused, or at their limit."""
    return (await session.execute(_with_types(statements_queue.IDLE), _types(types))).mappings().all()


async def policies(session: AsyncSession) -> dict[str, Policy]:
    """Return every policy that was set, by type."""
    rows = (await session.execute(select(queue_policies))).mappings()
    return {row["type"]: _policy(row) for row in rows}


async def set_policy(session: AsyncSession, task_type: str, values: Mapping[str, Any], by: str) -> Policy:
    """Store the given fields of a type's policy; return the whole.

    The first policy of a type waits until no claim is under way that couldn't see it, and counts the runs;
    from then on claims and ends keep the count.
    """
    known = select(queue_policies.c.type).where(queue_policies.c.type == task_type)
    if (await session.execute(known)).first() is None:
        await session.execute(text("SET LOCAL lock_timeout = '5s'"))
        await session.execute(text(statements_queue.STOP_WRITERS))
        await session.execute(text(statements_queue.FIRST_POLICY), {"type": task_type})
    statement = (
        update(queue_policies)
        .where(queue_policies.c.type == task_type)
        .values({**values, "updated_at": func.now(), "updated_by": by})
        .returning(queue_policies)
    )
    return _policy((await session.execute(statement)).mappings().one())


async def queues(session: AsyncSession, types: Sequence[str]) -> Sequence[RowMapping]:
    """Return queues with counters, policy, flows over ten minutes, oldest pending task and live workers."""
    values = _types(types) | {"minutes": RATE_MINUTES}
    return (await session.execute(_with_types(statements_queue.QUEUES), values)).mappings().all()


async def add_deltas(session: AsyncSession, task_type: str, **changes: int) -> None:
    """Note how a queue's counters change with this transaction."""
    await session.execute(insert(queue_deltas).values(type=task_type, **changes))


async def runs(session: AsyncSession, task_id: UUID) -> Sequence[RowMapping]:
    """Return the ended runs of a task, oldest first."""
    query = select(task_runs).where(task_runs.c.task_id == task_id).order_by(task_runs.c.version)
    return (await session.execute(query)).mappings().all()


async def ahead(session: AsyncSession, row: RowMapping) -> int:
    """Return how many claimable tasks of its type come before a task, counted up to 1,000."""
    values = {
        "type": row["type"],
        "claim_order": row["claim_order"],
        "id": row["id"],
        "most": MOST_AHEAD,
    }
    count = (await session.execute(text(statements_queue.AHEAD), values)).scalar_one()
    return min(int(count), MOST_AHEAD)


async def live_workers(
    session: AsyncSession, task_type: str, *, minutes: int = LIVE_WORKER_MINUTES
) -> Sequence[RowMapping]:
    """Return the workers seen lately that haven't left, all or those of one type, the latest first."""
    query = select(workers).where(
        workers.c.last_seen_at > func.now() - func.make_interval(0, 0, 0, 0, 0, minutes),
        workers.c.left_at.is_(None),
    )
    if task_type:
        query = query.where(literal(task_type) == any_(workers.c.types))
    return (
        (await session.execute(query.order_by(workers.c.last_seen_at.desc()).limit(1_000))).mappings().all()
    )


async def leases(session: AsyncSession, worker_ids: Sequence[str]) -> Sequence[RowMapping]:
    """Return the live runs of these workers."""
    query = select(
        tasks.c.id, tasks.c.type, tasks.c.version, tasks.c.claimed_by, tasks.c.progress, tasks.c.heartbeat_at
    ).where(tasks.c.status == "processing", tasks.c.claimed_by.in_(worker_ids))
    return (await session.execute(query.order_by(tasks.c.started_at))).mappings().all()


def _policy(row: RowMapping) -> Policy:
    return Policy(
        row["paused"],
        row["concurrency_limit"],
        row["lease_seconds"],
        row["stall_seconds"],
        row["max_attempts"],
    )
