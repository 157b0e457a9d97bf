"""A task service and beats that the test itself plays, for the worker's own decisions."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any, cast

from frontrow.task.v1 import task_pb2, work_pb2
from frontrow.task.v1 import task_service_pb2 as pb
from frontrow.worker.beats import BeatThread
from frontrow.worker.calls import Calls
from frontrow.worker.dispatch import Dispatcher, Limits
from frontrow.worker.execute import Handler
from frontrow.worker.leases import LeaseBook


def a_task(name: str, *, lease_seconds: float = 0) -> task_pb2.Task:
    """Return a claimed task; with a lease as long as given, or without a word on it."""
    task = task_pb2.Task(id=name, version=1, type="kind")
    if lease_seconds:
        task.start_time.FromMilliseconds(1_000)
        task.lease_expire_time.FromMilliseconds(1_000 + round(lease_seconds * 1000))
    return task


class QueueOfTasks:
    """A service whose queue never runs dry, and whose every call waits until the test lets it be answered."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.waiting: list[asyncio.Future[None]] = []
        self.sizes: list[tuple[int, int]] = []
        self.most_finishes_at_once = 0
        self._finishes = 0
        self.finished: list[str] = []

    def claim(self, count: int, *, wait_seconds: float) -> Any:
        """Claim."""
        return asyncio.ensure_future(self._answer([], count))

    async def finish_and_claim(
        self, items: Sequence[work_pb2.FinishItem], count: int
    ) -> pb.ClaimTasksResponse:
        """Finish and claim."""
        self._finishes += 1
        self.most_finishes_at_once = max(self.most_finishes_at_once, self._finishes)
        response = await self._answer(items, count)
        self._finishes -= 1
        return response

    async def _answer(self, items: Sequence[work_pb2.FinishItem], count: int) -> pb.ClaimTasksResponse:
        self.sizes.append((len(items), count))
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(gate)
        await gate
        self.finished += [item.task_id for item in items]
        return pb.ClaimTasksResponse(
            tasks=[a_task(f"task-{next(self._numbers)}") for _ in range(count)],
            finish_results=[
                work_pb2.FinishResult(task_id=item.task_id, outcome=work_pb2.FINISH_OUTCOME_APPLIED)
                for item in items
            ],
        )

    def answer_one(self) -> None:
        """Answer the call that has waited longest."""
        self.waiting.pop(0).set_result(None)


class PlayedBeats:
    """Beats that begin when the test says so."""

    def __init__(self) -> None:
        self.begun = 0
        self.wanted_now = 0

    def step(self) -> None:
        """Ignore a step of progress."""

    def beat_now(self) -> None:
        """Note that a beat is wanted at once."""
        self.wanted_now += 1

    def claim_lost(self) -> None:
        """Ignore a lost claim."""

    def set_interval(self, seconds: float) -> None:
        """Ignore the interval."""


def dispatcher_of(
    calls: object, beats: object, handler: Handler, *, slots: int, book: LeaseBook | None = None
) -> Dispatcher:
    """Return a dispatcher over what the test plays."""
    return Dispatcher(
        cast(Calls, calls),
        book if book is not None else LeaseBook(),
        cast(BeatThread, beats),
        handler=handler,
        limits=Limits(slots, 30.0, 3.0, None),
        on_serving=lambda _: None,
    )


async def settled() -> None:
    """Let everything on the event loop that is ready be done."""
    for _ in range(20):
        await asyncio.sleep(0)
