"""Keep a worker's slots full: claim, run, finish, in as few calls as the moment allows.

Two lanes share the slots. While nothing ended, one long poll asks for as many tasks as there are free slots.
As soon as runs end, one call finishes them all and claims as many again; what ends meanwhile shares the next
call, so batches form by themselves. Where a whole batch waits meanwhile, a second call goes beside the first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from frontrow.task.v1 import task_service_pb2, work_pb2
from frontrow.worker.beats import BeatThread
from frontrow.worker.calls import LARGEST_BATCH, Calls
from frontrow.worker.execute import Handler
from frontrow.worker.health import Health
from frontrow.worker.leases import LeaseBook
from frontrow.worker.run import Run
from frontrow.worker.runs import Asked, Ended, Runs

if TYPE_CHECKING:
    from frontrow.worker.calls import Claim

_log = logging.getLogger(__name__)

# What is there is answered at once; a claim that has taken longer waits for tasks to come.
ANSWER_SECONDS = 1.0
MOST_FINISH_CALLS = 2


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
        self._calls, self._beats, self._limits = calls, beats, limits
        self._health = Health(on_serving)
        self._runs = Runs(
            book,
            beats,
            self._health,
            handler=handler,
            timeout_seconds=limits.run_timeout_seconds,
            wake=self.wake,
        )
        self._loop = asyncio.get_running_loop()
        self._reserved = 0
        self._finish_calls: set[asyncio.Task[None]] = set()
        self._claim_call: asyncio.Task[None] | None = None
        self._asking: Claim | None = None
        self._asked_at = 0.0
        self._not_before = 0.0
        # Whether the last claim got all it asked for: there is probably more.
        self._plenty = False
        self._accepting = True
        # Whether the drain has ended: no call may begin after it.
        self._over = False
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

    def confirm(self, run: Run) -> None:
        """Start a run that waited for the word that its lease holds."""
        self._runs.confirm(run)

    def lose(self, run: Run) -> None:
        """Stop a run whose lease is lost."""
        self._runs.lose(run)

    async def drain(self, grace_seconds: float) -> None:
        """Stop claiming, let runs end for half the grace, cancel and release the rest, send what ended."""
        deadline = self._loop.time() + grace_seconds
        self._accepting = False
        self._runs.refuse_more()
        self.wake()
        claim_ended = self._loop.create_task(self._end_claim(grace_seconds / 2))
        await self._runs.over(grace_seconds / 2)
        await claim_ended
        self._runs.cancel()
        await self._runs.over(deadline - self._loop.time())
        await asyncio.sleep(0)  # lets the done callbacks of the last runs queue their finishes
        while (self._runs.ended or self._finish_calls) and self._loop.time() < deadline:
            self.resume()
            await asyncio.sleep(0.02)
        self._over = True
        calls = {*self._finish_calls, *([self._claim_call] if self._claim_call else ())}
        for call in calls:
            call.cancel()
        if calls:  # what they carried is among what is left
            await asyncio.wait(calls, timeout=1)
        left = self._runs.taken + self._runs.ended
        if left:
            _log.warning("worker.left_behind runs=%d", left)

    async def _end_claim(self, most_seconds: float) -> None:
        """End a claim that waits; let one that was just sent bring its answer, to give those tasks back.

        What an answer names that is thrown away here is given back by the worker's last beat.
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
        if self._over or self._loop.time() < self._not_before:
            return
        while self._may_finish():
            batch = self._runs.take(LARGEST_BATCH)
            count = min(LARGEST_BATCH, self._free_slots())
            self._finish_calls.add(self._begin(self._finish_and_claim(batch, count), count))
        if self._claim_call is None and not self._runs.ended and (count := self._claimable()):
            wait_seconds = 0.0 if self._finish_calls else self._limits.wait_seconds
            self._claim_call = self._begin(self._claim(count, wait_seconds), count)

    def _may_finish(self) -> bool:
        if not self._finish_calls:
            return self._runs.ended > 0
        return self._runs.ended >= LARGEST_BATCH and len(self._finish_calls) < MOST_FINISH_CALLS

    def _claimable(self) -> int:
        """Return how many tasks to ask for now: beside a finish only whole batches, while there is plenty."""
        free = self._free_slots()
        if self._finish_calls and (free < LARGEST_BATCH or not self._plenty):
            return 0
        return min(free, LARGEST_BATCH)

    def _free_slots(self) -> int:
        if not self._accepting or self._loop.time() < self._runs.no_claim_before:
            return 0
        slots = self._limits.concurrency if self._health.serving else 1
        return max(0, slots - self._runs.taken - self._reserved)

    def _begin(self, call: Coroutine[Any, Any, None], count: int) -> asyncio.Task[None]:
        self._reserved += count
        task = self._loop.create_task(call)
        task.add_done_callback(lambda done: self._call_ended(done, count))
        return task

    def _call_ended(self, task: asyncio.Task[None], count: int) -> None:
        self._reserved -= count
        self._finish_calls.discard(task)
        if task is self._claim_call:
            self._claim_call = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("worker.call_broke", exc_info=error)
            self._call_failed()
        self.wake()

    async def _claim(self, count: int, wait_seconds: float) -> None:
        began = self._asked_at = self._loop.time()
        asked = self._runs.asking()
        self._asking = self._calls.claim(count, wait_seconds=wait_seconds)
        try:
            response = await self._asking
        except grpc.aio.AioRpcError as error:
            self._refused(error)
            return
        self._answered(response, asked, count)
        if not response.tasks and self._loop.time() - began < wait_seconds * 0.9:
            # A server that is about to stop ends its long polls early: don't spin.
            self._pause(min(self._limits.poll_seconds, 0.25))

    async def _finish_and_claim(self, batch: Sequence[Ended], count: int) -> None:
        asked = self._runs.asking()
        try:
            response = await self._calls.finish_and_claim([item for _, item in batch], count)
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.INVALID_ARGUMENT:
                await self._finish_apart(batch)
                return
            self._runs.put_back(batch)
            self._refused(error)
            return
        except BaseException as error:
            self._broken_off(batch, error)
            raise
        left_out = self._settle(batch, response.finish_results)
        self._answered(response, asked, count)
        if left_out:
            _log.error("worker.results_missing count=%d of=%d", left_out, len(batch))
            self._call_failed()

    def _settle(self, batch: Sequence[Ended], results: Sequence[work_pb2.FinishResult]) -> int:
        """Settle what was answered, put back what a server that broke its word left out; return how many."""
        for (run, _), result in zip(batch, results, strict=False):
            self._runs.settle(run, result.outcome)
        left_out = batch[len(results) :]
        self._runs.put_back(left_out)
        return len(left_out)

    async def _finish_apart(self, batch: Sequence[Ended]) -> None:
        """End each run by itself, so that the one the server refuses doesn't hold up the others."""
        left = list(batch)
        while left:
            run, item = left[0]
            try:
                await self._calls.finish_one(item)
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.INVALID_ARGUMENT:
                    self._runs.put_back(left)
                    self._refused(error)
                    return
                _log.error("worker.finish_refused task_id=%s: %s", run.task_id, error.details())
            except BaseException as error:
                self._broken_off(left, error)
                raise
            self._runs.settle(run, 0)
            left.pop(0)

    def _broken_off(self, batch: Sequence[Ended], error: BaseException) -> None:
        """Keep what a call carried that its channel took along: it would be beaten for without end."""
        self._runs.put_back(batch)
        if isinstance(error, asyncio.CancelledError) and not self._over:
            self._call_failed()  # told of other errors when the call has ended

    def _answered(self, response: task_service_pb2.ClaimTasksResponse, asked: Asked, count: int) -> None:
        self._health.worked(self._health.calls)
        self._plenty = 0 < count == len(response.tasks)
        if response.HasField("beat_interval"):
            self._beats.set_interval(response.beat_interval.ToTimedelta().total_seconds())
        self._runs.admit(response.tasks, asked)

    def _refused(self, error: grpc.aio.AioRpcError) -> None:
        _log.warning("worker.call_failed code=%s: %s", error.code().name, error.details())
        self._call_failed()

    def _call_failed(self) -> None:
        self._beats.claim_lost()
        self._pause(self._health.failed(self._health.calls))

    def _pause(self, seconds: float) -> None:
        self._not_before = max(self._not_before, self._loop.time() + seconds)
        self._loop.call_later(seconds + 0.001, self.wake)
