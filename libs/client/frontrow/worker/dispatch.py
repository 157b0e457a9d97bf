"""Keep a worker's slots full: claim, run, finish, in as few calls as the moment allows.

Two lanes share the slots. While nothing ended, one long poll asks for as many tasks as there are free slots.
As soon as runs end, one call finishes them all and claims as many again; what ends meanwhile shares the next
call, so batches form by themselves.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from frontrow.task.v1 import task_service_pb2, work_pb2
from frontrow.worker.backoff import Breaker
from frontrow.worker.beats import BeatThread
from frontrow.worker.calls import LARGEST_BATCH, Calls
from frontrow.worker.execute import Handler, InfrastructureDown, finish_item, outcome_of
from frontrow.worker.leases import LeaseBook
from frontrow.worker.outcomes import Outcome, Released
from frontrow.worker.run import Run

if TYPE_CHECKING:
    from frontrow.worker.calls import Claim

_log = logging.getLogger(__name__)

# What is there is answered at once; a claim that has taken longer waits for tasks to come.
ANSWER_SECONDS = 1.0

Ended = tuple[Run, work_pb2.FinishItem]


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a worker: slots, lengths of a long poll, of a pause after it, of a run (None: none)."""

    concurrency: int
    wait_seconds: float
    poll_seconds: float
    run_timeout_seconds: float | None


class Dispatcher:
    """Claims for the free slots, runs the handler, finishes what ended."""

    def __init__(
        self, calls: Calls, book: LeaseBook, beats: BeatThread, *, handler: Handler, limits: Limits,
        on_serving: Callable[[bool], None],
    ) -> None:  # fmt: skip
        self._calls, self._book, self._beats = calls, book, beats
        self._handler, self._limits, self._on_serving = handler, limits, on_serving
        # Apart: a task service that answers says nothing about the store a handler needs.
        self._calls_down = Breaker()
        self._runs_down = Breaker()
        self._serving = True
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[Outcome]] = set()
        self._ended: deque[Ended] = deque()
        self._reserved = 0
        self._finish_call: asyncio.Task[None] | None = None
        self._claim_call: asyncio.Task[None] | None = None
        self._asking: Claim | None = None
        self._asked_at = 0.0
        # No call before the one, no claim before the other: a store that is down holds up no finish.
        self._not_before = 0.0
        self._no_claim_before = 0.0
        self._accepting = True
        self._scheduled = False

    def wake(self) -> None:
        """Look again for something to do, once what is ready on the event loop has been done."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def resume(self) -> None:
        """End a pause: the server is back."""
        self._not_before = 0.0
        self.wake()

    async def drain(self, grace_seconds: float) -> None:
        """Stop claiming, let runs end for half the grace, cancel and release the rest, send what ended."""
        deadline = self._loop.time() + grace_seconds
        self._accepting = False
        claim_ended = self._loop.create_task(self._end_claim(grace_seconds / 2))
        if self._running:
            await asyncio.wait(self._running, timeout=grace_seconds / 2)
        await claim_ended
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=max(0.0, deadline - self._loop.time()))
        await asyncio.sleep(0)  # lets the done callbacks of the last runs queue their finishes
        while (self._ended or self._finish_call) and self._loop.time() < deadline:
            self.resume()
            await asyncio.sleep(0.02)
        for call in (self._finish_call, self._claim_call):
            if call is not None:
                call.cancel()
        left = len(self._running) + len(self._ended)
        if left:
            _log.warning("worker.left_behind runs=%d", left)

    async def _end_claim(self, most_seconds: float) -> None:
        """End a claim that waits; let one that was just sent bring its answer, to give those tasks back.

        The tasks of an answer that is thrown away would wait out their leases, and be charged for it.
        """
        call = self._claim_call
        if call is None:
            return
        left = self._asked_at + ANSWER_SECONDS - self._loop.time()
        if left > 0:
            await asyncio.wait({call}, timeout=min(left, most_seconds))
        # The call, not who awaits it: an answer that is here already is taken.
        if self._asking is not None:
            self._asking.cancel()
        await asyncio.wait({call}, timeout=most_seconds)

    def _pump(self) -> None:
        self._scheduled = False
        if self._finish_call is not None or self._loop.time() < self._not_before:
            return
        if self._ended:
            batch = [self._ended.popleft() for _ in range(min(LARGEST_BATCH, len(self._ended)))]
            count = min(LARGEST_BATCH, self._free_slots())
            self._finish_call = self._begin(self._finish_and_claim(batch, count), count)
        elif self._claim_call is None and (count := self._free_slots()) > 0:
            self._claim_call = self._begin(self._claim(count), count)

    def _free_slots(self) -> int:
        if not self._accepting or self._loop.time() < self._no_claim_before:
            return 0
        slots = self._limits.concurrency if self._serving else 1
        return max(0, slots - len(self._running) - self._reserved)

    def _begin(self, call: Coroutine[Any, Any, None], count: int) -> asyncio.Task[None]:
        self._reserved += count
        task = self._loop.create_task(call)
        task.add_done_callback(lambda done: self._call_ended(done, count))
        return task

    def _call_ended(self, task: asyncio.Task[None], count: int) -> None:
        self._reserved -= count
        if task is self._finish_call:
            self._finish_call = None
        else:
            self._claim_call = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("worker.call_broke", exc_info=error)
            self._beats.claim_lost()
            self._pause(self._calls_down.failed())
        self.wake()

    async def _claim(self, count: int) -> None:
        began = self._asked_at = self._loop.time()
        self._asking = self._calls.claim(count, wait_seconds=self._limits.wait_seconds)
        try:
            response = await self._asking
        except grpc.aio.AioRpcError as error:
            self._claim_failed(error)
            return
        self._worked(self._calls_down)
        self._take(response)
        if not response.tasks and self._loop.time() - began < self._limits.wait_seconds * 0.9:
            # A server that is about to stop ends its long polls early: don't spin.
            self._pause(min(self._limits.poll_seconds, 0.25))

    async def _finish_and_claim(self, batch: Sequence[Ended], count: int) -> None:
        try:
            response = await self._calls.finish_and_claim([item for _, item in batch], count)
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.INVALID_ARGUMENT:
                await self._finish_apart(batch)
                return
            self._ended.extendleft(reversed(batch))
            self._claim_failed(error)
            return
        self._worked(self._calls_down)
        for (run, _), result in zip(batch, response.finish_results, strict=True):
            self._settle(run, result.outcome)
        self._take(response)

    async def _finish_apart(self, batch: Sequence[Ended]) -> None:
        """End each run by itself, so that the one the server refuses doesn't hold up the others."""
        left = list(batch)
        while left:
            try:
                await self._calls.finish_one(left[0][1])
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.INVALID_ARGUMENT:
                    self._ended.extendleft(reversed(left))
                    self._claim_failed(error)
                    return
                _log.error("worker.finish_refused task_id=%s: %s", left[0][0].task_id, error.details())
            run, _ = left.pop(0)
            self._book.drop(run.task_id, run.version)

    def _settle(self, run: Run, outcome: int) -> None:
        self._book.drop(run.task_id, run.version)
        if outcome in {work_pb2.FINISH_OUTCOME_LEASE_LOST, work_pb2.FINISH_OUTCOME_NOT_FOUND}:
            _log.warning("worker.finish_too_late task_id=%s version=%d", run.task_id, run.version)

    def _take(self, response: task_service_pb2.ClaimTasksResponse) -> None:
        if response.HasField("beat_interval"):
            self._beats.set_interval(response.beat_interval.ToTimedelta().total_seconds())
        for task in response.tasks:
            run = Run(task, on_step=self._beats.step)
            self._book.add(run)
            if not self._accepting:
                self._ended.append((run, finish_item(run, Released())))
                continue
            running = self._loop.create_task(self._execute(run), name=f"run {run.task_id}")
            run.asyncio_task = running
            self._running.add(running)
            running.add_done_callback(lambda done, run=run: self._run_ended(run, done))  # type: ignore[misc]

    async def _execute(self, run: Run) -> Outcome:
        try:
            outcome = await outcome_of(self._handler, run, timeout_seconds=self._limits.run_timeout_seconds)
        except InfrastructureDown:
            pause = self._runs_down.failed()
            self._tell_serving()
            self._no_claim_before = max(self._no_claim_before, self._loop.time() + pause)
            self._loop.call_later(pause + 0.001, self.wake)
            return Released(pause)
        self._worked(self._runs_down)
        return outcome

    def _run_ended(self, run: Run, task: asyncio.Task[Outcome]) -> None:
        self._running.discard(task)
        if run.lease_lost:
            self._book.drop(run.task_id, run.version)
        else:
            # Cancelled, perhaps before its first step: by a shutdown or on request. Either way it is given
            # back; the server makes a cancelled task of it when that was asked for.
            outcome = Released() if task.cancelled() else task.result()
            self._ended.append((run, finish_item(run, outcome)))
        self.wake()

    def _claim_failed(self, error: grpc.aio.AioRpcError) -> None:
        _log.warning("worker.call_failed code=%s: %s", error.code().name, error.details())
        self._beats.claim_lost()
        pause = self._calls_down.failed()
        self._tell_serving()
        self._pause(pause)

    def _worked(self, breaker: Breaker) -> None:
        breaker.succeeded()
        if not self._serving:
            self._tell_serving()

    def _tell_serving(self) -> None:
        self._serving = not (self._calls_down.open or self._runs_down.open)
        self._on_serving(self._serving)

    def _pause(self, seconds: float) -> None:
        self._not_before = max(self._not_before, self._loop.time() + seconds)
        self._loop.call_later(seconds + 0.001, self.wake)
