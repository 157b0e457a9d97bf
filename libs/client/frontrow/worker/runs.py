"""The runs of a worker, from their claim to the finish that waits to be sent.

A handler never starts on a lease that may be over: when the claim's answer was long under way, the next beat
must first say that the run is live.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from frontrow.task.v1 import task_pb2, work_pb2
from frontrow.worker.beats import BeatThread
from frontrow.worker.execute import Handler, InfrastructureDown, finish_item, outcome_of
from frontrow.worker.health import Health
from frontrow.worker.leases import LeaseBook
from frontrow.worker.outcomes import Failed, Outcome, Released
from frontrow.worker.run import Run
from frontrow.worker.tracing import Spans

_log = logging.getLogger(__name__)

# The server gives a claim back that two beats in a row didn't name.
BEATS_THAT_GIVE_BACK = 2

Ended = tuple[Run, work_pb2.FinishItem]


class Asked(NamedTuple):
    """When a claim was sent (monotonic seconds), and how many beats had begun by then."""

    at: float
    beats: int


class Runs:
    """Starts a handler for each claimed task and keeps what ended until it is taken.

    `wake` is called when there may be something to finish or to claim.
    """

    def __init__(
        self, book: LeaseBook, beats: BeatThread, health: Health, *, handler: Handler,
        timeout_seconds: float | None, wake: Callable[[], None],
    ) -> None:  # fmt: skip
        self._book, self._beats, self._health = book, beats, health
        self._handler, self._timeout_seconds, self._wake = handler, timeout_seconds, wake
        self._spans = Spans()
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[Outcome]] = set()
        self._doubted: set[Run] = set()
        self._ended: deque[Ended] = deque()
        self._accepting = True
        # No claim before this, because what handlers need is down; finishes are sent nevertheless.
        self.no_claim_before = 0.0

    @property
    def taken(self) -> int:
        """How many slots are taken."""
        return len(self._running) + len(self._doubted)

    @property
    def ended(self) -> int:
        """How many runs wait for their finish to be sent."""
        return len(self._ended)

    def asking(self) -> Asked:
        """Return what must be known about a claim that is sent now when its answer comes."""
        return Asked(time.monotonic(), self._beats.begun)

    def admit(self, tasks: Iterable[task_pb2.Task], asked: Asked) -> None:
        """Start a handler for each task, or give the tasks back while the worker stops."""
        for task in tasks:
            run = Run(task, on_step=self._beats.step)
            self._book.add(run)
            if not self._accepting:
                self._ended.append((run, finish_item(run, Released())))
            elif self._is_doubtful(run, asked):
                run.doubted = True
                self._doubted.add(run)
                self._beats.beat_now()
            else:
                self._start(run)

    def _is_doubtful(self, run: Run, asked: Asked) -> bool:
        """Return whether a run may be over before it began. Asked after the book names it to the beats."""
        beats = self._beats.begun - asked.beats
        return beats >= BEATS_THAT_GIVE_BACK or run.is_old(time.monotonic() - asked.at)

    def confirm(self, run: Run) -> None:
        """Start a doubted run after all: a beat has said that it is live."""
        if run in self._doubted:
            self._doubted.remove(run)
            run.doubted = False
            self._start(run)

    def lose(self, run: Run) -> None:
        """Stop a run whose lease is lost; one that hasn't begun never will."""
        run.lease_lost = True
        if run in self._doubted:
            self._doubted.remove(run)
            self._book.drop(run.task_id, run.version)
            self._wake()
        else:
            run.interrupt()

    def take(self, most: int) -> list[Ended]:
        """Take up to `most` of what ended, the oldest first."""
        return [self._ended.popleft() for _ in range(min(most, len(self._ended)))]

    def put_back(self, batch: Sequence[Ended]) -> None:
        """Return what was taken and couldn't be sent."""
        self._ended.extendleft(reversed(batch))

    def settle(self, run: Run, outcome: int) -> None:
        """Forget a run whose finish has been answered."""
        self._book.drop(run.task_id, run.version)
        if outcome in {work_pb2.FINISH_OUTCOME_LEASE_LOST, work_pb2.FINISH_OUTCOME_NOT_FOUND}:
            _log.warning("worker.finish_too_late task_id=%s version=%d", run.task_id, run.version)

    def refuse_more(self) -> None:
        """Give back from now on what is claimed, and what hasn't begun."""
        self._accepting = False
        self._ended += [(run, finish_item(run, Released())) for run in self._doubted]
        self._doubted.clear()

    async def over(self, timeout_seconds: float) -> None:
        """Wait until no handler runs, or for so long."""
        if self._running:
            await asyncio.wait(self._running, timeout=max(0.0, timeout_seconds))

    def cancel(self) -> None:
        """Cancel every handler that runs."""
        for task in self._running:
            task.cancel()

    def _start(self, run: Run) -> None:
        running = self._loop.create_task(self._execute(run), name=f"run {run.task_id}")
        run.asyncio_task = running
        self._running.add(running)
        running.add_done_callback(lambda done: self._run_ended(run, done))

    async def _execute(self, run: Run) -> Outcome:
        try:
            outcome = await outcome_of(self._handler, run, self._spans, timeout_seconds=self._timeout_seconds)
        except InfrastructureDown:
            pause = self._health.failed(self._health.runs)
            self.no_claim_before = max(self.no_claim_before, self._loop.time() + pause)
            self._loop.call_later(pause + 0.001, self._wake)
            return Released(pause)
        self._health.worked(self._health.runs)
        return outcome

    def _run_ended(self, run: Run, task: asyncio.Task[Outcome]) -> None:
        self._running.discard(task)
        if run.lease_lost:
            self._book.drop(run.task_id, run.version)
        else:
            # Cancelled, perhaps before its first step: by a shutdown or on request. Either way it is given
            # back; the server makes a cancelled task of it when that was asked for.
            self._ended.append((run, _end_of(run, task)))
        self._wake()


def _end_of(run: Run, task: asyncio.Task[Outcome]) -> work_pb2.FinishItem:
    try:
        return finish_item(run, Released() if task.cancelled() else task.result())
    except Exception as error:  # noqa: BLE001 - a run without an end would be beaten for, and held, for ever
        _log.exception("worker.end_without_words task_id=%s", run.task_id)
        return finish_item(run, Failed(f"the end of the run can't be told: {error!r}", retryable=True))
