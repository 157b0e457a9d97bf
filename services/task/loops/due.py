"""Let delayed tasks enter the queue when their time has come."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from libs.common.lane import Lane
from libs.common.loops import Periodic
from services.task import statements

MOST = 500
QUIET_ROUNDS = 10


class DueTasks:
    """Looks once an interval and at the moment the next task falls due. Runs on every server at once.

    Every tenth interval is enough while nothing is delayed, nobody has a doubt about it and other servers are
    heard (`listening`). `on_due` is told how many tasks of each type may be claimed now.
    """

    def __init__(
        self, lane: Lane, on_due: Callable[[Mapping[str, int]], None], *, interval_seconds: float,
        listening: Callable[[], bool] = lambda: True,
    ) -> None:  # fmt: skip
        self._lane = lane
        self._on_due = on_due
        self._interval_seconds = interval_seconds
        self._listening = listening
        self._loop = Periodic("task:due", interval_seconds, self._round)
        self._timer: asyncio.TimerHandle | None = None
        self._quiet_rounds = 0
        self._doubted = True

    def doubt(self) -> None:
        """Look at the next interval: something has changed, perhaps a task was delayed."""
        self._doubted = True

    def note(self, moment: datetime) -> None:
        """Look at `moment`, unless an earlier look is planned.

        By this machine's clock, which may be off: the interval is the guarantee.
        """
        self._doubted = True
        self._plan((moment - datetime.now(UTC)).total_seconds())

    async def start(self) -> None:
        """Begin to look."""
        await self._loop.start()

    async def stop(self) -> None:
        """Let the look in hand finish."""
        if self._timer is not None:
            self._timer.cancel()
        await self._loop.stop()

    async def _round(self) -> None:
        if self._doubted or self._quiet_rounds >= QUIET_ROUNDS or not self._listening():
            await self.step()
        else:
            self._quiet_rounds += 1

    async def step(self) -> None:
        """Let in what has fallen due by now."""
        self._doubted, self._quiet_rounds = False, 0
        async with self._lane.transaction() as connection:
            rows = await connection.fetch(statements.MAKE_DUE, MOST)
            pause = await connection.fetchval(statements.NEXT_DUE)
        if rows:
            self._on_due(Counter(row["type"] for row in rows))
        if pause is not None:
            self._doubted = True
            self._plan(pause.total_seconds())

    def _plan(self, seconds: float) -> None:
        if seconds >= self._interval_seconds:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + max(0.001, seconds + 0.001)
        if self._timer is not None and loop.time() < self._timer.when() <= at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(at, self._loop.wake)
