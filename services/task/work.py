"""The desk for claims and finishes: all callers of this server share one statement of each kind.

One flush is in flight; what arrives meanwhile shares the next. A flush is a task of its own with a
transaction of its own, so a caller that goes away takes nothing down with it; what was claimed for it is
given back.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Callable, Sequence

import asyncpg
import structlog

from libs.common.coalesce import BROKEN, interrupted, spoilt_by_an_item
from libs.common.lane import Lane, outcome_unknown
from libs.common.loops import is_cancelled
from services.task.flush import Flush, Flushed
from services.task.jobs import Job, giving_back, refuse_all
from services.task.limits import TypeLimits
from services.task.repository_claim import Claimed
from services.task.repository_end import Answer, Backoff, Ended, Ending
from services.task.waiters import Loan, Waiter, WaitRoom

log = structlog.get_logger(__name__)

MOST_ENDINGS = 1_000
JOIN_TURNS = 4
"""Turns of the event loop before a flush, so that calls that have arrived already join it.

Under load the batches are twice as large for it; when idle they take some ten microseconds.
"""


class WorkDesk:
    """Ends runs and hands out tasks.

    `on_change` is told, after each commit, the tasks that changed and the types that are pending again.
    """

    def __init__(
        self, lane: Lane, limits: TypeLimits, backoff: Backoff,
        on_change: Callable[[Sequence[Ended], Sequence[Claimed]], None],
    ) -> None:  # fmt: skip
        self._on_change = on_change
        self._flush = Flush(lane, limits, backoff)
        self._dismissed = False
        self._jobs: deque[Job] = deque()
        self._room = WaitRoom()
        self._running: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many calls wait for work here."""
        return len(self._room)

    def waiting_types(self) -> list[str]:
        """Return the types somebody waits for here."""
        return self._room.types()

    async def end(self, endings: Sequence[Ending]) -> list[Answer]:
        """End runs; return the answers in order."""
        return (await self.end_and_claim(endings, None))[0]

    async def end_and_claim(
        self, endings: Sequence[Ending], want: Waiter | None
    ) -> tuple[list[Answer], list[Claimed]]:
        """End runs and, in the same transaction after them, claim what is there now; never waits for work."""
        job = Job(endings, want)
        self._jobs.append(job)
        self._kick()
        try:
            answers = await job.answers
        except asyncio.CancelledError:
            if want is not None:
                self._take_back(want)
            raise
        return answers, want.delivery.result() if want is not None else []

    async def claim_or_wait(
        self, want: Waiter, seconds: float, stopping: Callable[[], bool]
    ) -> list[Claimed]:
        """Claim what is there, else wait up to `seconds` for a first task.

        Empty when there was none at some moment of this call: a look says so, never the silence of others,
        whose notice may be on its way or lost.
        """
        if stopping():
            return []
        began = time.monotonic()
        must_look = not self._room.is_settled(want.types)
        # In the room before the first look: a task that is created meanwhile signals it.
        self._room.add(want)
        try:
            if must_look:
                claimed = await self._look(want)
                if claimed or want.delivery.done():
                    return claimed
            self._room.settle(want)
            await asyncio.wait({want.delivery}, timeout=seconds)
            if not want.delivery.done() and not self._room.was_empty_since(want.types, began):
                return await self._look(want)
            return want.delivery.result() if want.delivery.done() else []
        except asyncio.CancelledError:
            self._take_back(want)
            raise
        finally:
            self._room.remove(want)
            if not want.delivery.done():
                want.delivery.cancel()

    async def _look(self, want: Waiter) -> list[Claimed]:
        job = Job((), want)
        self._jobs.append(job)
        self._kick()
        await job.answers
        return want.delivery.result() if want.delivery.done() else []

    def signal(self, task_type: str, count: int = 1) -> None:
        """Let as many waiters as there are new tasks of a type look for them."""
        if self._room.signal(task_type, count):
            self._kick()

    def probe(self) -> None:
        """Let one waiter of each kind look although nobody signalled: the guarantee when a signal is lost."""
        if self._room.probe():
            self._kick()

    def look_everywhere(self) -> None:
        """Let one waiter of each kind look from the very beginning: there is work that nobody signalled."""
        self._flush.marks.forget(self._room.types())
        self.probe()

    def note_empty(self, types: Sequence[str], at: float) -> None:
        """Note that a look at `at`, on the monotonic clock, found nothing of these types."""
        self._room.note_empty(types, at)

    def dismiss(self) -> None:
        """End every wait with an empty answer, because the server stops."""
        self._dismissed = True
        for waiter in self._room.all():
            waiter.dismiss()

    def lend(self, task_type: str) -> Loan | None:
        """Lend somebody who waits for a task of this type, to be given one that is just being made."""
        waiter = self._room.lend(task_type)
        return Loan(waiter, self._flush.marks.position(task_type)) if waiter is not None else None

    def hand_over(self, loan: Loan, row: asyncpg.Record | None) -> None:
        """End a loan: give the waiter the task that began for it, or None to let it wait on."""
        waiter = loan.waiter
        if row is not None:
            self._give(waiter, [Claimed(0, row)])
        elif self._dismissed:
            waiter.dismiss()
        elif not waiter.delivery.done():
            # What was signalled meanwhile it hasn't heard.
            self._room.add(waiter)
            for task_type in waiter.types:
                self.signal(task_type)

    async def drained(self) -> None:
        """Wait until no flush is in flight."""
        while self._running is not None:
            await asyncio.wait({self._running})

    def _kick(self) -> None:
        if self._running is None:
            # Nobody's task: it must not inherit the first caller's deadline, actor or span.
            self._running = asyncio.create_task(self._run(), context=contextvars.Context())

    async def _run(self) -> None:
        try:
            while True:
                for _ in range(JOIN_TURNS):
                    await asyncio.sleep(0)
                jobs, waiters = self._collect()
                if not jobs and not waiters:
                    return
                await self._serve_all(jobs, waiters)
                self._room.looked()
        finally:
            self._running = None

    async def _serve_all(self, jobs: Sequence[Job], signalled: Sequence[Waiter]) -> None:
        """Serve, and leave no caller of these jobs without an answer, whatever happens."""
        try:
            await self._serve(jobs, signalled)
        except Exception:  # a fault in here must not end the desk for everybody
            log.exception("task.flush_broke", calls=len(jobs))
        finally:
            refuse_all(jobs, RuntimeError(BROKEN))

    def _collect(self) -> tuple[list[Job], list[Waiter]]:
        jobs: list[Job] = []
        size = 0
        while self._jobs and size < MOST_ENDINGS:
            job = self._jobs.popleft()
            size += len(job.endings)
            jobs.append(job)
        first = {job.waiter for job in jobs if job.waiter is not None}
        return jobs, [waiter for waiter in self._room.take_signalled() if waiter not in first]

    async def _serve(self, jobs: Sequence[Job], signalled: Sequence[Waiter]) -> None:
        waiters = [job.waiter for job in jobs if job.waiter is not None] + list(signalled)
        endings = [ending for job in jobs for ending in job.endings]
        began = time.monotonic()
        try:
            flush = await self._flush.run(endings, waiters)
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            await self._failed(jobs, signalled, interrupted(error))
            return
        except Exception as error:  # noqa: BLE001 - handed to the callers, each of whom raises it
            await self._failed(jobs, signalled, error)
            return
        # First of all: it is committed, so its callers must learn of it.
        if flush.unsettled is None:
            self._deliver(jobs, signalled, flush)
            self._note_rest(flush, began)
        else:  # never done again: that would claim a second time
            self._give_back(flush.unclaimed)
            refuse_all(jobs, flush.unsettled)
        claimed = [item for items in flush.claimed.values() for item in items]
        try:
            self._on_change(flush.ended, claimed + flush.unclaimed)
        except Exception:  # a word that isn't spread costs others a poll
            log.exception("task.on_change_failed")

    def _deliver(self, jobs: Sequence[Job], signalled: Sequence[Waiter], flush: Flushed) -> None:
        position = 0
        for job in jobs:
            count = len(job.endings)
            job.answer(flush.answers[position : position + count])
            position += count
        asked = {job.waiter for job in jobs if job.waiter is not None}
        unknown = flush.failure is not None and outcome_unknown(flush.failure)
        for waiter in (*asked, *signalled):
            items = flush.claimed.get(waiter, [])
            if items:
                self._room.remove(waiter)
                self._give(waiter, items)
            elif flush.failure is not None and (unknown or waiter in asked):
                waiter.refuse(flush.failure)
            elif waiter in asked and not self._room.holds(waiter):
                waiter.dismiss()

    def _note_rest(self, flush: Flushed, began: float) -> None:
        for types, exhausted in flush.exhausted.items():
            self._room.note_rest(types, len(flush.claimed), exhausted=exhausted)
            if exhausted and flush.failure is None:
                self._room.note_empty(types, began)

    def _give(self, waiter: Waiter, items: list[Claimed]) -> None:
        if waiter.delivery.done():
            self._give_back(items)  # it went away meanwhile
        else:
            waiter.delivery.set_result(items)

    async def _failed(self, jobs: Sequence[Job], signalled: Sequence[Waiter], error: Exception) -> None:
        """Do a spoilt flush again job by job; otherwise tell every caller.

        Those in the room wait on, unless something may have been claimed for them: they must know, for only
        who misses an answer beats although it holds nothing, and so gets it given back (domain.md 1.4).
        """
        if len(jobs) > 1 and spoilt_by_an_item(error):
            for job in jobs:
                await self._serve([job], [])
            return
        if signalled:
            log.warning("task.claim_failed", waiting=self.waiting, error=repr(error)[:500])
        if outcome_unknown(error):
            for waiter in signalled:
                waiter.refuse(error)
        refuse_all(jobs, error)

    def _take_back(self, waiter: Waiter) -> None:
        """Give back what was claimed for a caller who went away before it could be told."""
        if waiter.delivery.done():
            # A claim that failed brought nothing; its error must not take the cancellation's place.
            if not waiter.delivery.cancelled() and waiter.delivery.exception() is None:
                self._give_back(waiter.delivery.result())
        else:
            waiter.delivery.cancel()

    def _give_back(self, items: Sequence[Claimed]) -> None:
        if not items:
            return
        log.info("task.claim_given_back", count=len(items))
        self._jobs.append(giving_back(items))
        self._kick()
