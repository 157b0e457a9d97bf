"""Add tasks, once for each id however often they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg

from libs.common.lane import Connection
from services.task import statements_create


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task as its creator wants it; `chosen_id` tells whether the creator named the id."""

    task_id: UUID
    chosen_id: bool
    request_id: str
    type: str
    priority: int
    payload: bytes
    content_sha256: bytes
    subject: str
    live_material_name: str
    video_project_name: str
    max_attempts: int
    run_after: datetime | None
    trace_parent: str = ""


class Starter(NamedTuple):
    """The worker that waits for a new task; no fresh task of its type waits below `mark`."""

    worker_id: str
    mark: datetime


class Created(NamedTuple):
    """The task under the ids given: new, the first one, or (`clash`) one with other content."""

    row: asyncpg.Record
    new: bool
    clash: bool


async def create(
    connection: Connection, tasks: Sequence[NewTask], starters: Sequence[Starter | None] = ()
) -> list[Created]:
    """Insert the tasks whose ids are new; answer for each what stands under its ids (domain.md 1.13).

    An id that another transaction is just inserting is waited for. Nothing is ever overwritten. A new task
    with a starter begins at once, claimed by it, when it is due and nothing of its type comes before it
    (domain.md 1.2); else it is pending.
    """
    starting = list(starters) or [None] * len(tasks)
    created: list[Created | None] = [None] * len(tasks)
    while left := [index for index, answer in enumerate(created) if answer is None]:
        # What stood under an id may be deleted between the two looks, after its time: then it is new again.
        tried = await _try(connection, [tasks[at] for at in left], [starting[at] for at in left])
        for index, answer in zip(left, tried, strict=True):
            created[index] = answer
    return [answer for answer in created if answer is not None]


async def _try(
    connection: Connection, tasks: Sequence[NewTask], starters: Sequence[Starter | None]
) -> list[Created | None]:
    """Insert what is new and compare the rest; None for what was neither to be inserted nor found."""
    order = sorted(range(len(tasks)), key=lambda index: tasks[index].task_id)
    rows = await connection.fetch(
        statements_create.INSERT,
        *_columns([tasks[index] for index in order]),
        [starter.worker_id if (starter := starters[index]) else None for index in order],
        [starter.mark if (starter := starters[index]) else None for index in order],
    )
    inserted: dict[UUID, asyncpg.Record] = {row["id"]: row for row in rows}
    created: list[Created | None] = [None] * len(tasks)
    for index in order:
        row = inserted.pop(tasks[index].task_id, None)
        # A second task with this id in the same call finds it taken from here: a repeat like any other.
        if row is not None:
            created[index] = Created(row, new=True, clash=False)
    left = [index for index in order if created[index] is None]
    if left:
        for index, found in zip(left, await _existing(connection, [tasks[i] for i in left]), strict=True):
            created[index] = found
    return created


async def _existing(connection: Connection, tasks: Sequence[NewTask]) -> list[Created | None]:
    rows = await connection.fetch(
        statements_create.EXISTING, [task.task_id for task in tasks], [task.request_id for task in tasks]
    )
    found: dict[int, list[asyncpg.Record]] = {}
    for row in rows:
        found.setdefault(row["n"] - 1, []).append(row)
    return [_compare(task, found[place]) if place in found else None for place, task in enumerate(tasks)]


def _compare(task: NewTask, rows: Sequence[asyncpg.Record]) -> Created:
    row = rows[0]
    same = (
        len(rows) == 1
        and row["content_sha256"] == task.content_sha256
        and row["request_id"] == task.request_id
        and (not task.chosen_id or row["id"] == task.task_id)
    )
    return Created(row, new=False, clash=not same)


def _columns(tasks: Sequence[NewTask]) -> tuple[list[object], ...]:
    return (
        [task.task_id for task in tasks],
        [task.request_id for task in tasks],
        [task.type for task in tasks],
        [task.priority for task in tasks],
        [task.payload for task in tasks],
        [task.content_sha256 for task in tasks],
        [task.subject for task in tasks],
        [task.live_material_name for task in tasks],
        [task.video_project_name for task in tasks],
        [task.max_attempts for task in tasks],
        [task.run_after for task in tasks],
        [task.trace_parent for task in tasks],
    )
