"""The desk for beats: all workers of this server share one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

import asyncpg
import structlog

from libs.common.coalesce import Coalescer, spoilt_by_an_item
from libs.common.lane import Connection, Lane
from services.task.repository_beat import (
    Beat,
    BeatAnswer,
    Beaten,
    beat,
    count_absent,
    left_behind,
    standing,
)
from services.task.repository_end import Backoff, Ended, Ending, count_late, end_runs, lock_policies

log = structlog.get_logger(__name__)


class BeatCall(NamedTuple):
    """One worker's beat: every run it holds; `leaving`: it is the last."""

    worker_id: str
    beats: Sequence[Beat]
    leaving: bool = False


class BeatDesk:
    """Renews leases and gives back runs whose claim's reply was lost (domain.md 1.4).

    `on_rise` is told, after the commit, the tasks whose progress rose; `on_ended` the tasks given back;
    `on_failure` that beats can't be taken now.
    """

    def __init__(
        self, lane: Lane, *, lost_claim_seconds: float, on_rise: Callable[[Sequence[UUID]], None],
        on_ended: Callable[[Sequence[Ended]], None], on_failure: Callable[[], None],
    ) -> None:  # fmt: skip
        self._lane = lane
        self._lost_claim_seconds = lost_claim_seconds
        self._on_rise = on_rise
        self._on_ended = on_ended
        self._on_failure = on_failure
        self._calls = Coalescer[BeatCall, list[BeatAnswer]](self._flush, most=200)

    async def beat(self, call: BeatCall) -> list[BeatAnswer]:
        """Renew what the worker names; return the answers in order."""
        return await self._calls.submit(call)

    async def drained(self) -> None:
        """Wait until no flush is in flight."""
        await self._calls.drained()

    async def _flush(self, calls: Sequence[BeatCall]) -> list[list[BeatAnswer]]:
        try:
            return await self._beat(calls)
        except (Exception, asyncio.CancelledError) as error:
            if not spoilt_by_an_item(error):
                self._on_failure()
            raise

    async def _beat(self, calls: Sequence[BeatCall]) -> list[list[BeatAnswer]]:
        beats = [item for call in calls for item in call.beats]
        leaving = sorted({call.worker_id for call in calls if call.leaving})
        workers = sorted({call.worker_id for call in calls if call.worker_id not in leaving})
        async with self._lane.transaction() as connection:
            renewed = await beat(connection, beats) if beats else []
            absent = await count_absent(
                connection, workers, beats, older_than_seconds=self._lost_claim_seconds
            )
            if leaving:
                absent += await left_behind(connection, leaving, beats)
        if absent:
            await self._give_back(absent)
        answers = await self._answers(beats, renewed)
        rose = [
            item.task_id
            for item, answer in zip(beats, answers, strict=True)
            if isinstance(answer, Beaten) and answer.rose
        ]
        if rose:
            self._on_rise(rose)
        return _apart(answers, calls)

    async def _answers(self, beats: Sequence[Beat], renewed: Sequence[Beaten | None]) -> list[BeatAnswer]:
        """Answer for all; what wasn't renewed is tried once more, since another transaction may hold it."""
        left = [item for item, answer in zip(beats, renewed, strict=True) if answer is None]
        again = iter(await self._once_more(left) if left else ())
        return [next(again) if answer is None else answer for answer in renewed]

    async def _once_more(self, beats: Sequence[Beat]) -> list[BeatAnswer]:
        """Wait for who holds the rows, as long as a lane waits for a lock; then tell how the runs stand."""
        try:
            async with self._lane.transaction() as connection:
                renewed = await beat(connection, beats, waiting=True)
                return await _settle(connection, beats, renewed)
        except asyncpg.LockNotAvailableError:
            async with self._lane.transaction() as connection:
                return await _settle(connection, beats, [None] * len(beats))

    async def _give_back(self, absent: Sequence[Ending]) -> None:
        """Release runs, uncharged, in a transaction of its own: it locks policies before any task.

        While somebody holds a policy, that is left to the next beat: to fail here would have this one, which
        is committed, taken again, and its absences counted twice.
        """
        try:
            async with self._lane.transaction() as connection:
                await lock_policies(connection, task_ids=[ending.task_id for ending in absent])
                ended = (await end_runs(connection, absent, Backoff(0, 0))).ended
        except asyncpg.LockNotAvailableError:
            log.warning("task.claims_not_given_back", count=len(absent))
            return
        if ended:
            log.info("task.claims_given_back", count=len(ended))
            self._on_ended(ended)


async def _settle(
    connection: Connection, beats: Sequence[Beat], renewed: Sequence[Beaten | None]
) -> list[BeatAnswer]:
    """Answer for all; count reports of progress that came too late. Without one a beat is no late write."""
    stands = await standing(connection, beats)
    answers = [now if answer is None else answer for answer, now in zip(renewed, stands, strict=True)]
    given = zip(beats, answers, strict=True)
    late = [item[:2] for item, answer in given if answer == "lease_lost" and item.progress is not None]
    await count_late(connection, late)
    return answers


def _apart(answers: Sequence[BeatAnswer], calls: Sequence[BeatCall]) -> list[list[BeatAnswer]]:
    apart: list[list[BeatAnswer]] = []
    position = 0
    for call in calls:
        apart.append(list(answers[position : position + len(call.beats)]))
        position += len(call.beats)
    return apart
