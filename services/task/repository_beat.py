"""Renew leases, and give back what a worker never got."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import asyncpg

from libs.common.lane import Connection
from services.task import statements, statements_queue
from services.task.repository_end import REPLY_LOST, Ending
from services.task.states import End

BEATS_ABSENT = 2


class Beat(NamedTuple):
    """One lease as a worker names it. `hundredths` of a per cent are done; None: nothing to report."""

    task_id: UUID
    version: int
    hundredths: int | None


class Beaten(NamedTuple):
    """A live run, last renewed at the database's time `at`; `rose` tells whether progress did just now."""

    type: str
    cancel_requested: bool
    at: datetime
    rose: bool


BeatAnswer = Beaten | Literal["lease_lost", "not_found"]


async def beat(
    connection: Connection, beats: Sequence[Beat], *, waiting: bool = False
) -> list[Beaten | None]:
    """Renew each lease whose run is live and raise its progress; None for the others, which stay untouched.

    Progress never goes back (domain.md 1.5), and the lease is renewed without any (domain.md 1.4). A live run
    whose row another transaction holds is passed over, too, unless `waiting`.
    """
    merged, places = _merged(beats)
    columns = (list(column) for column in zip(*merged, strict=True))
    rows = await connection.fetch(statements.BEAT_AGAIN if waiting else statements.BEAT, *columns)
    renewed = {row["n"] - 1: _beaten(row, rose=row["rose"]) for row in rows}
    return [renewed.get(place) for place in places]


async def standing(connection: Connection, beats: Sequence[Beat]) -> list[BeatAnswer]:
    """Return how runs stand that weren't renewed: a live one as it was renewed last."""
    ids, versions = [given.task_id for given in beats], [given.version for given in beats]
    answers: list[BeatAnswer] = ["not_found"] * len(beats)
    for row in await connection.fetch(statements.STANDING, ids, versions):
        answers[row["n"] - 1] = _beaten(row, rose=False) if row["live"] else "lease_lost"
    return answers


def _beaten(row: asyncpg.Record, *, rose: bool) -> Beaten:
    return Beaten(row["type"], row["cancel_requested"], row["beaten_at"], rose)


def _merged(beats: Sequence[Beat]) -> tuple[list[Beat], list[int]]:
    """Return each run once, with the highest progress named, and the place there of each beat given."""
    merged: list[Beat] = []
    places: list[int] = [0] * len(beats)
    for index in sorted(range(len(beats)), key=lambda index: beats[index][:2]):
        given = beats[index]
        if merged and merged[-1][:2] == given[:2]:
            highest = max(merged[-1].hundredths or 0, given.hundredths or 0)
            merged[-1] = Beat(given.task_id, given.version, highest)
        else:
            merged.append(given)
        places[index] = len(merged) - 1
    return merged, places


async def count_absent(
    connection: Connection, workers: Sequence[str], named: Sequence[Beat], *, older_than_seconds: float
) -> list[Ending]:
    """Count runs their own worker did not name in this beat; return how those absent twice in a row end.

    Precondition: claimed by one of `workers` more than `older_than_seconds` ago and not among `named`. The
    count is on the row, since a worker's beats reach different servers (domain.md 1.4). An older run of the
    same task doesn't stand for the live one.
    """
    ids, versions = [given.task_id for given in named], [given.version for given in named]
    rows = await connection.fetch(statements.COUNT_ABSENT, list(workers), ids, versions, older_than_seconds)
    return [
        Ending(row["id"], row["version"], End.RELEASED, reason=REPLY_LOST)
        for row in rows
        if row["absent_beats"] >= BEATS_ABSENT
    ]


async def left_behind(connection: Connection, workers: Sequence[str], named: Sequence[Beat]) -> list[Ending]:
    """Return how the runs end that workers who leave do not name: the replies to their claims were lost."""
    ids, versions = [given.task_id for given in named], [given.version for given in named]
    rows = await connection.fetch(statements_queue.LEFT_BEHIND, list(workers), ids, versions)
    return [Ending(row["id"], row["version"], End.RELEASED, reason=REPLY_LOST) for row in rows]
