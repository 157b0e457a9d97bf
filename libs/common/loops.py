"""Background duties: what a loop is, and the one that runs a step again and again."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import structlog

from libs.common.tally import Tally

log = structlog.get_logger(__name__)

T = TypeVar("T")

_FIRST_BACKOFF_SECONDS = 0.25
_LONGEST_BACKOFF_SECONDS = 30.0
# A loop is one caller among many, and must be at work again soon after a long outage has ended: a server has
# five seconds to serve again, and what it serves may wait for several loops in turn.
_LONGEST_STEP_BACKOFF_SECONDS = 1.0


def backoff_seconds(
    failures: int, *, first: float = _FIRST_BACKOFF_SECONDS, longest: float = _LONGEST_BACKOFF_SECONDS
) -> float:
    """Return how long to wait after ``failures`` failures in a row (1 = the first).

    Doubles from ``first`` to ``longest``; half of it is jitter, so that many processes that failed
    together do not come back together.
    """
    doubled = min(longest, first * 2.0 ** min(max(failures, 1) - 1, 60))
    return doubled * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


def is_cancelled() -> bool:
    """Tell, in an ``except CancelledError``, whether it is this task that is to end.

    A call on a channel that was closed raises the same error in a task that nobody has cancelled.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def uninterrupted(work: Awaitable[T]) -> T:
    """Finish a terminal write even when the run is cancelled meanwhile; the cancellation goes on after it."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


class Loop(Protocol):
    """A duty that runs beside the RPCs of a server."""

    async def start(self) -> None:
        """Begin. Returns once the duty runs; must be called in the loop that it is to run in."""

    async def stop(self) -> None:
        """End. Lets the step in hand finish when it can; safe to call twice or without a start."""


class Periodic:
    """A loop that runs ``step`` at once, then every ``interval_seconds``, and sooner when woken.

    A failed step is logged and never ends the loop. After a failure the loop waits (0.25 s doubling
    to 1 s, with jitter) and wakes do not cut that short: a database that is down is not hammered.
    """

    def __init__(
        self,
        name: str,
        interval_seconds: float,
        step: Callable[[], Awaitable[None]],
        *,
        jitter: float = 0.1,
        grace_seconds: float = 5.0,
    ) -> None:
        """Prepare the loop; nothing runs before ``start``.

        ``jitter`` is the share by which each interval varies (0.1: ± 10 %). ``grace_seconds`` is how
        long ``stop`` lets a step finish before it is cancelled.
        """
        self.name = name
        self._interval_seconds = interval_seconds
        self._step = step
        self._jitter = jitter
        self._grace_seconds = grace_seconds
        self._wanted = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failed_steps = Tally.of(
            None,
            "loop.failures",
            ("loop",),
            unit="{step}",
            description="steps of background loops that failed",
        )
        self._failed_steps.add(name, count=0)

    def wake(self) -> None:
        """Ask for a step soon. A level, not a pulse: many wakes before a step are one.

        Call it from the event loop's own thread.
        """
        self._wanted.set()

    async def start(self) -> None:
        """Run the first step soon. Starting a running loop changes nothing."""
        if self._task is None or self._task.done():
            self._stopping.clear()
            self._task = asyncio.create_task(self._run(), name=f"loop:{self.name}")

    async def stop(self) -> None:
        """Let the step in hand finish within the grace, else cancel it."""
        task, self._task = self._task, None
        if task is None:
            return
        self._stopping.set()
        done, _ = await asyncio.wait({task}, timeout=self._grace_seconds)
        if not done:
            log.warning("loop.step_cancelled", loop=self.name, grace_seconds=self._grace_seconds)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            # cleared before the step: a wake that comes while it runs asks for another one
            self._wanted.clear()
            try:
                await self._step()
                failures = 0
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                failures += 1
                log.exception("loop.step_failed", loop=self.name, failures=failures)
            except Exception:  # a loop outlives the failure of one step
                failures += 1
                log.exception("loop.step_failed", loop=self.name, failures=failures)
            if failures:
                self._failed_steps.add(self.name)
                pause = backoff_seconds(failures, longest=_LONGEST_STEP_BACKOFF_SECONDS)
                await self._wait(pause, self._stopping)
            else:
                varied = random.uniform(1 - self._jitter, 1 + self._jitter)  # noqa: S311 - jitter
                await self._wait(self._interval_seconds * varied, self._stopping, self._wanted)

    @staticmethod
    async def _wait(seconds: float, *events: asyncio.Event) -> None:
        """Wait until one of the events is set or the time is over."""
        waiters = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(waiters, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()
