"""End runs: finish, release, take back. One statement for all, guarded by the run's version."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import asyncpg

from libs.common.lane import Connection
from services.task import statements, statements_end
from services.task.states import End

REPLY_LOST = "REPLY_LOST"
"""Why the server itself releases a run: its worker never heard of it. No worker's finish repeats that."""

_NO_COLUMNS: list[list[object]] = [[] for _ in range(9)]

Answer = Literal["applied", "requeued", "failed", "cancelled", "lease_lost", "not_found"]


class Ending(NamedTuple):
    """How one run ends. `pause_seconds` delays a released task; `reason` is kept when it goes back."""

    task_id: UUID
    version: int
    ended_as: End
    progress: int | None = None
    ext: bytes = b""
    message: str = ""
    retryable: bool = False
    pause_seconds: float = 0.0
    reason: str = ""


class Backoff(NamedTuple):
    """Bounds of the pause after a retryable failure: drawn from 0 to base × 2^(attempts − 1) seconds."""

    base_seconds: float
    longest_seconds: float


class Ended(NamedTuple):
    """A task whose run ended. `due_at` is set when it is pending but not to be claimed before.

    `cause` is what ended the run: `completed`, `failed`, `released`, or why the server took it back: `stale`,
    `stalled`, `reply_lost`.
    """

    task_id: UUID
    type: str
    status: str
    due_at: datetime | None
    cause: str


Limits = tuple[str, float, float | None]
"""A type with its lease and its stall limit, in seconds."""


class EndResult(NamedTuple):
    """The answers, in the order asked, and the tasks that changed."""

    answers: list[Answer]
    ended: list[Ended]


_ANSWERS: dict[str, Answer] = {
    "completed": "applied",
    "pending": "requeued",
    "failed": "failed",
    "cancelled": "cancelled",
}


async def lock_policies(
    connection: Connection, types: Sequence[str] = (), task_ids: Sequence[UUID] = ()
) -> None:
    """Lock the policies of these types and of these tasks' types, before the transaction changes any task.

    Whatever may change tasks of several types that have policies calls it first: one order for all.
    """
    await connection.execute(statements.LOCK_POLICIES, sorted(set(types)), list(task_ids))


async def lock_all_policies(connection: Connection, held: Collection[str] = ()) -> set[str]:
    """Lock every policy, for a sweep, which can't know what it will find.

    It waits for all but the `held`, which somebody held just before: of those it takes what is free, and
    returns the types of the others.
    """
    await connection.execute(statements.LOCK_OTHER_POLICIES, list(held))
    rows = await connection.fetch(statements.LOCK_FREE_POLICIES, list(held)) if held else []
    return {row["type"] for row in rows}


async def policy_types(connection: Connection) -> list[str]:
    """Return the types that have a policy, in the order in which those are locked."""
    return [row["type"] for row in await connection.fetch(statements.POLICY_TYPES)]


async def end_runs(connection: Connection, endings: Sequence[Ending], backoff: Backoff) -> EndResult:
    """End each run that is live; answer for all.

    Precondition: the run is live (its version, claimed, not completed). Otherwise nothing is written and the
    answer is `lease_lost`, or `not_found` for an unknown task; a repeat of the ending that ended the run gets
    its first answer, from the run's record (domain.md 1.3).
    """
    return await settle(connection, endings, await end_given(connection, endings, backoff))


class EndedRow(NamedTuple):
    """What a statement tells of a run it ended by the ending at `place`."""

    place: int
    task_id: UUID
    type: str
    status: str
    due_at: datetime | None


async def end_given(connection: Connection, endings: Sequence[Ending], backoff: Backoff) -> list[EndedRow]:
    """End each run that is live, by one statement; `settle` then answers for all."""
    order = arrange(endings)
    rows = await connection.fetch(statements_end.END_GIVEN, *columns(endings, order), *backoff)
    return [EndedRow(order[row["n"] - 1], *tuple(row)[1:]) for row in rows]


def arrange(endings: Sequence[Ending]) -> list[int]:
    """Return in which order to give endings to a statement: by id, each run once, by its first ending.

    So two servers never wait for each other in a circle.
    """
    first: dict[tuple[bytes, int], int] = {}
    for index, ending in enumerate(endings):
        first.setdefault((ending.task_id.bytes, ending.version), index)
    return [first[key] for key in sorted(first)]


def columns(endings: Sequence[Ending], order: Sequence[int]) -> list[list[object]]:
    """Return the endings as a statement takes them: a list for each column."""
    return [list(column) for column in zip(*(endings[index] for index in order), strict=True)] or _NO_COLUMNS


async def settle(connection: Connection, endings: Sequence[Ending], rows: Sequence[EndedRow]) -> EndResult:
    """Answer for all endings, given what a statement has told of those that ended a run."""
    answers: list[Answer | None] = [None] * len(endings)
    for row in rows:
        answers[row.place] = _ANSWERS[row.status]
    await _answer_the_rest(connection, endings, answers)
    return EndResult([answer or "lease_lost" for answer in answers], changed(endings, rows))


def changed(endings: Sequence[Ending], rows: Sequence[EndedRow]) -> list[Ended]:
    """Return the tasks whose runs a statement has ended by one of these endings."""
    return [Ended(row.task_id, row.type, row.status, row.due_at, _cause(endings[row.place])) for row in rows]


def _cause(ending: Ending) -> str:
    return "reply_lost" if ending.reason == REPLY_LOST else ending.ended_as.value


async def _answer_the_rest(
    connection: Connection, endings: Sequence[Ending], answers: list[Answer | None]
) -> None:
    left = [index for index, answer in enumerate(answers) if answer is None]
    if not left:
        return
    ids = [endings[index].task_id for index in left]
    versions = [endings[index].version for index in left]
    late: list[int] = []
    for row in await connection.fetch(statements.RUN_RECORDS, ids, versions):
        index = left[row["n"] - 1]
        if not row["known"]:
            answers[index] = "not_found"
        elif row["ended_as"] == endings[index].ended_as and row["reason"] != REPLY_LOST:
            answers[index] = row["outcome"]
        else:
            answers[index] = "lease_lost"
            late.append(index)
    await count_late(connection, [(endings[index].task_id, endings[index].version) for index in late])


async def count_late(connection: Connection, runs: Sequence[tuple[UUID, int]]) -> None:
    """Count refused writes on the records of the runs they came from; others are passed over."""
    if runs:
        await connection.execute(
            statements.COUNT_LATE, [task_id for task_id, _ in runs], [version for _, version in runs]
        )


async def end_lost(
    connection: Connection, limits: Sequence[Limits], default: tuple[float, float | None] | None,
    *, unripe: Sequence[str] = (), most: int
) -> list[Ended]:  # fmt: skip
    """Take back runs that are silent or stuck for longer than their type's lease or stall limit.

    `limits` names types with (lease, stall) in seconds of their own, `default` those of every other type;
    None leaves those alone, as are the types of `unripe`. A stall limit None finds nobody stuck. Precondition
    of each row: processing and too old by the database's clock; rows that others write just now are passed
    over (domain.md 1.6, 1.7).
    """
    types, leases, stalls = (list(column) for column in zip(*limits, strict=True)) if limits else ([], [], [])
    lease, stall = default if default is not None else (None, None)
    return _ended(
        await connection.fetch(
            statements_end.END_LOST, types, leases, stalls, lease, stall, most, list(unripe)
        )
    )


async def end_older(connection: Connection, task_type: str, *, seconds: float, most: int) -> list[Ended]:
    """Take back runs of one type that were not heard of for `seconds`; up to `most` of them."""
    return _ended(await connection.fetch(statements_end.END_OLDER, task_type, seconds, most))


def _ended(rows: Sequence[asyncpg.Record]) -> list[Ended]:
    return [
        Ended(row["id"], row["type"], row["status"], row["due_at"], row["given_reason"].lower())
        for row in rows
    ]
