"""Claim tasks: the SQL side of handing work out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import asyncpg

from libs.common.lane import Connection
from services.task import statements_claim

LATE_COMMIT = timedelta(seconds=2)
FULL_LOOK_SECONDS = 5.0
SHORT_LOOK_SECONDS = 1.0
LONGEST_LOOK_SECONDS = 30.0
LOOK_SHARE = 0.02
"""What share of the time looks at everything may take: dead rows that can't be taken away make them long."""
_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)


class Marks:
    """Where the fresh rows of each type begin, so that a claim needn't walk over the rows taken before.

    Kept in memory by each server. A mark covers only rows that nobody ever touched, stays two seconds behind
    what was claimed (rows of slow transactions appear late) and is left aside every five seconds; every
    second while there is too little to claim; later, half a minute at most, where such full looks take long.
    """

    def __init__(self) -> None:
        self._marks: dict[str, datetime] = {}
        self._looked_at: dict[str, float] = {}
        self._took: dict[str, float] = {}
        self._scarce: set[str] = set()

    def begin(self, task_type: str) -> datetime:
        """Return where to look from; the beginning of time when a full look is due."""
        now = time.monotonic()
        pause = SHORT_LOOK_SECONDS if task_type in self._scarce else FULL_LOOK_SECONDS
        pause = max(pause, min(LONGEST_LOOK_SECONDS, self._took.get(task_type, 0.0) / LOOK_SHARE))
        if now - self._looked_at.get(task_type, float("-inf")) >= pause:
            self._looked_at[task_type] = now
            return _BEGINNING
        return self._marks.get(task_type, _BEGINNING)

    def position(self, task_type: str) -> datetime:
        """Return where the fresh rows begin, as far as is known here."""
        return self._marks.get(task_type, _BEGINNING)

    def looked(self, task_type: str, mark: datetime, seconds: float) -> None:
        """Note how long a look from `mark` took, without what it waited for others."""
        if mark == _BEGINNING:
            self._took[task_type] = seconds

    def forget(self, types: Sequence[str]) -> None:
        """Make the next look at each of these types a full one: there is work, perhaps below its mark."""
        for task_type in types:
            self._looked_at.pop(task_type, None)

    def claimed(self, task_type: str, orders: Sequence[datetime], now: datetime) -> None:
        """Note the orders of fresh rows claimed at the database's time `now`."""
        if orders:
            self._marks[task_type] = min(max(orders), now - LATE_COMMIT)

    def note_rest(self, task_type: str, *, scarce: bool) -> None:
        """Note whether a look found less than was wanted."""
        if scarce:
            self._scarce.add(task_type)
        else:
            self._scarce.discard(task_type)


class Claimed(NamedTuple):
    """A claimed task and the slot (from 0) it was claimed for."""

    slot: int
    row: asyncpg.Record


class Look(NamedTuple):
    """What one statement claimed, and from which mark; `edged`: perhaps there is more behind the edge."""

    claimed: list[Claimed]
    mark: datetime
    edged: bool


async def claim(
    connection: Connection, types: Sequence[str], workers: Sequence[str], marks: Marks
) -> list[Claimed]:
    """Claim up to `len(workers)` tasks of `types`, slot i for `workers[i]`; oldest by the one order first.

    Precondition of each row: pending and due. Rows that another claim is just taking are passed over, never
    waited for; each task goes to exactly one caller (domain.md 1.2). Fewer than asked: there were no more.
    """
    if len(types) == 1:
        look = await first_look(connection, types[0], workers, marks)
        return look.claimed + await second_look(connection, types[0], workers, marks, look)
    starts, shares = await _shares(connection, types, len(workers), marks)
    if shares:
        # Another server may take some of what was counted: fill up from wherever there is more.
        shares += [(task_type, len(workers)) for task_type in types]
    claimed: list[Claimed] = []
    for task_type, count in shares:
        offset = len(claimed)
        slots = workers[offset : offset + count]
        if slots:
            mark = starts.pop(task_type, None) or marks.begin(task_type)
            look = await _look(connection, task_type, slots, marks, mark=mark, everywhere=False)
            taken = look.claimed + await second_look(connection, task_type, slots, marks, look)
            claimed += [Claimed(slot + offset, row) for slot, row in taken]
    return sorted(claimed, key=lambda item: (item.row["claim_order"], item.row["id"]))


async def _shares(
    connection: Connection, types: Sequence[str], count: int, marks: Marks
) -> tuple[dict[str, datetime], list[tuple[str, int]]]:
    """Return from where each type was looked at, and how many of each are among the first `count` of all.

    Where nothing was found it is looked below the marks, too, of those types for which that is due.
    """
    starts = {task_type: marks.begin(task_type) for task_type in types}
    while True:
        began = time.monotonic()
        rows = await connection.fetch(statements_claim.SHARES, list(types), count, list(starts.values()))
        seconds = time.monotonic() - began
        for task_type, start in starts.items():
            marks.looked(task_type, start, seconds)
        if rows:
            return starts, [(str(row["type"]), int(row["share"])) for row in rows]
        for task_type in types:
            marks.note_rest(task_type, scarce=True)
        lower = {task_type: min(start, marks.begin(task_type)) for task_type, start in starts.items()}
        if lower == starts:
            return starts, []
        starts = lower


async def first_look(connection: Connection, task_type: str, slots: Sequence[str], marks: Marks) -> Look:
    """Claim tasks of one type, in the one order, without what lies behind those that others are taking."""
    return await _look(connection, task_type, slots, marks, mark=marks.begin(task_type), everywhere=False)


async def second_look(
    connection: Connection, task_type: str, slots: Sequence[str], marks: Marks, first: Look
) -> list[Claimed]:
    """Claim for the slots that got nothing, if there may be more; then move the mark.

    Others were perhaps just taking what lay ahead: now it is looked behind that, and below the mark when that
    is due.
    """
    more: list[Claimed] = []
    missing = len(slots) - len(first.claimed)
    marks.note_rest(task_type, scarce=missing > 0)
    try:
        mark = marks.begin(task_type) if missing else first.mark
        if missing and (first.edged or mark < first.mark):
            rest = await _look(connection, task_type, slots[-missing:], marks, mark=mark, everywhere=True)
            more = [Claimed(slot + len(first.claimed), row) for slot, row in rest.claimed]
    finally:
        _move(marks, task_type, [*first.claimed, *more])
    return more


def _move(marks: Marks, task_type: str, claimed: Sequence[Claimed]) -> None:
    fresh = [row["claim_order"] for _, row in claimed if row["version"] == 1 and not row["priority"]]
    if fresh:
        marks.claimed(task_type, fresh, claimed[0].row["started_at"])


async def _look(
    connection: Connection, task_type: str, slots: Sequence[str], marks: Marks, *, mark: datetime,
    everywhere: bool,
) -> Look:  # fmt: skip
    rows = await connection.fetch(
        statements_claim.CLAIM, task_type, len(slots), mark, list(slots), everywhere
    )
    return looked(rows, task_type, marks, mark=mark)


def looked(rows: Sequence[asyncpg.Record], task_type: str, marks: Marks, *, mark: datetime) -> Look:
    """Return what the rows of a claim's statement tell; those without a slot tell of no claim.

    No row at all, after ends that ended nothing, says nothing of the look: there may be more.
    """
    if rows:
        marks.looked(task_type, mark, rows[0]["seconds"])
    claimed = [Claimed(row["slot"] - 1, row) for row in rows if row["slot"] is not None]
    claimed.sort(key=lambda item: item.slot)
    return Look(claimed, mark, not rows or bool(rows[0]["edged"]))
