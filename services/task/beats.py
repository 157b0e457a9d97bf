"""The desk for beats: all workers of this server share one statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple
from uuid import UUID

import structlog

from libs.common.coalesce import Coalescer
from libs.common.lane import Lane
from services.task.repository_beat import Beat, Beaten, beat, count_absent, known, left_behind
from services.task.repository_end import Backoff, Ended, Ending, count_late, end_runs, lock_policies

log = structlog.get_logger(__name__)


class BeatCall(NamedTuple):
    """One worker's beat: every run it holds; `leaving`: it is the last."""

    worker_id: str
    beats: Sequence[Beat]
    leaving: bool = False


BeatAnswer = Beaten | Literal["lease_lost", "not_found"]


class BeatDesk:
    """Renews leases and gives back runs whose claim's reply was lost (domain.md 1.4).

    `on_rise` is told, after the commit, the tasks whose progress rose; `on_ended` the tasks given back.
    """

    def __init__(
        self, lane: Lane, *, lost_claim_seconds: float, on_rise: Callable[[Sequence[UUID]], None],
        on_ended: Callable[[Sequence[Ended]], None],
    ) -> None:  # fmt: skip
        self._lane = lane
        self._lost_claim_seconds = lost_claim_seconds
        self._on_rise = on_rise
        self._on_ended = on_ended
        self._calls = Coalescer[BeatCall, list[BeatAnswer]](self._flush, most=200)

    async def beat(self, call: BeatCall) -> list[BeatAnswer]:
        """Renew what the worker names; return the answers in order."""
        return await self._calls.submit(call)

    async def drained(self) -> None:
        """Wait until no flush is in flight."""
        await self._calls.drained()

    async def _flush(self, calls: Sequence[BeatCall]) -> list[list[BeatAnswer]]:
        beats = [item for call in calls for item in call.beats]
        leaving = sorted({call.worker_id for call in calls if call.leaving})
        workers = sorted({call.worker_id for call in calls if call.worker_id not in leaving})
        async with self._lane.transaction() as connection:
            renewed = await beat(connection, beats) if beats else []
            lost = [item.task_id for item, answer in zip(beats, renewed, strict=True) if answer is None]
            ids = await known(connection, lost) if lost else set()
            absent = await count_absent(
                connection, workers, beats, older_than_seconds=self._lost_claim_seconds
            )
            if leaving:
                absent += await left_behind(connection, leaving, beats)
            if ids:
                await count_late(connection, _late(beats, renewed, ids))
        if absent:
            await self._give_back(absent)
        rose = [
            item.task_id
            for item, answer in zip(beats, renewed, strict=True)
            if answer is not None and answer.rose
        ]
        if rose:
            self._on_rise(rose)
        answers: list[BeatAnswer] = [
            answer if answer is not None else ("lease_lost" if item.task_id in ids else "not_found")
            for item, answer in zip(beats, renewed, strict=True)
        ]
        return _apart(answers, calls)

    async def _give_back(self, absent: Sequence[Ending]) -> None:
        """Release runs, uncharged, in a transaction of its own: it locks policies before any task."""
        async with self._lane.transaction() as connection:
            await lock_policies(connection, task_ids=[ending.task_id for ending in absent])
            ended = (await end_runs(connection, absent, Backoff(0, 0))).ended
        if ended:
            log.info("task.claims_given_back", count=len(ended))
            self._on_ended(ended)


def _late(
    beats: Sequence[Beat], renewed: Sequence[Beaten | None], known_ids: set[UUID]
) -> list[tuple[UUID, int]]:
    """Return the runs whose reports of progress came too late; without one a beat is no write of a result."""
    return [
        (item.task_id, item.version)
        for item, answer in zip(beats, renewed, strict=True)
        if answer is None and item.progress is not None and item.task_id in known_ids
    ]


def _apart(answers: Sequence[BeatAnswer], calls: Sequence[BeatCall]) -> list[list[BeatAnswer]]:
    apart: list[list[BeatAnswer]] = []
    position = 0
    for call in calls:
        apart.append(list(answers[position : position + len(call.beats)]))
        position += len(call.beats)
    return apart
