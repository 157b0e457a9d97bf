"""The desk for beats: all workers of this server share one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar
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

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Flush = Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]]


class BeatCall(NamedTuple):
    """One worker's beat: every run it holds; `leaving`: it is the last."""

    worker_id: str
    beats: Sequence[Beat]
    leaving: bool = False


class BeatDesk:
    """Renews leases and gives back runs whose claim's reply was lost (domain.md 1.4).

    What `lane` didn't renew is tried once more on `again`, since another transaction may hold it: whoever
    named no such run has been answered by then.

    `on_rise` is told, after the commit, the tasks whose progress rose; `on_ended` the tasks given back;
    `on_failure` that beats can't be taken now.
    """

    def __init__(
        self, lane: Lane, again: Lane, *, lost_claim_seconds: float,
        on_rise: Callable[[Sequence[UUID]], None], on_ended: Callable[[Sequence[Ended]], None],
        on_failure: Callable[[], None],
    ) -> None:  # fmt: skip
        self._lane = lane
        self._lane_again = again
        self._lost_claim_seconds = lost_claim_seconds
        self._on_rise = on_rise
        self._on_ended = on_ended
        self._on_failure = on_failure
        self._calls = Coalescer[BeatCall, list[Beaten | None]](self._told(self._beat), most=200)
        self._again = Coalescer[Sequence[Beat], list[BeatAnswer]](self._told(self._once_more), most=200)

    async def beat(self, call: BeatCall) -> list[BeatAnswer]:
        """Renew what the worker names; return the answers in order."""
        renewed = await self._calls.submit(call)
        left = [item for item, answer in zip(call.beats, renewed, strict=True) if answer is None]
        again = iter(await self._again.submit(left) if left else ())
        return [next(again) if answer is None else answer for answer in renewed]

    async def drained(self) -> None:
        """Wait until no flush is in flight."""
        await self._calls.drained()
        await self._again.drained()

    def _told(self, flush: Flush[Item, Answer]) -> Flush[Item, Answer]:
        """Return a flush whose failure is told."""

        async def told(items: Sequence[Item]) -> Sequence[Answer]:
            try:
                return await flush(items)
            except (Exception, asyncio.CancelledError) as error:
                if not spoilt_by_an_item(error):
                    self._on_failure()
                raise

        return told

    async def _beat(self, calls: Sequence[BeatCall]) -> list[list[Beaten | None]]:
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
        self._tell_rise(beats, renewed)
        return _apart(renewed, [len(call.beats) for call in calls])

    async def _once_more(self, calls: Sequence[Sequence[Beat]]) -> list[list[BeatAnswer]]:
        """Wait for who holds the rows, as long as a lane waits for a lock; then tell how the runs stand."""
        beats = [item for call in calls for item in call]
        try:
            async with self._lane_again.transaction() as connection:
                renewed = await beat(connection, beats, waiting=True)
                answers = await _settle(connection, beats, renewed)
        except asyncpg.LockNotAvailableError:
            async with self._lane_again.transaction() as connection:
                answers = await _settle(connection, beats, [None] * len(beats))
        self._tell_rise(beats, answers)
        return _apart(answers, [len(call) for call in calls])

    def _tell_rise(self, beats: Sequence[Beat], answers: Sequence[BeatAnswer | None]) -> None:
        given = zip(beats, answers, strict=True)
        rose = [item.task_id for item, answer in given if isinstance(answer, Beaten) and answer.rose]
        if rose:
            self._on_rise(rose)

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
    late = [item[:2] for item, answer in given if answer == "lease_lost" and item.hundredths is not None]
    await count_late(connection, late)
    return answers


def _apart(answers: Sequence[Answer], counts: Sequence[int]) -> list[list[Answer]]:
    """Return the answers by call, of which each has so many."""
    left = iter(answers)
    return [list(islice(left, count)) for count in counts]
