"""Let delayed tasks enter the queue when their time has come."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

from libs.common.loops import Periodic
from services.task import statements
from services.task.lane import Lane

MOST = 500


class DueTasks:
    """Looks once an interval and at the moment the next task falls due. Runs on every server at once.

    `on_due` is told how many tasks of each type may be claimed now.
    """

    def __init__(
        self, lane: Lane, on_due: Callable[[Mapping[str, int]], None], *, interval_seconds: float
    ) -> None:
        self._lane = lane
        self._on_due = on_due
        self._interval_seconds = interval_seconds
        self._loop = Periodic("task:due", interval_seconds, self.step)
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Begin to look."""
        await self._loop.start()

    async def stop(self) -> None:
        """Let the look in hand finish."""
        if self._timer is not None:
            self._timer.cancel()
        await self._loop.stop()

    async def step(self) -> None:
        """Let in what has fallen due by now."""
        async with self._lane.transaction() as connection:
            rows = await connection.fetch(statements.MAKE_DUE, MOST)
            pause = await connection.fetchval(statements.NEXT_DUE)
        if rows:
            self._on_due(Counter(row["type"] for row in rows))
        if pause is not None and pause.total_seconds() < self._interval_seconds:
            if self._timer is not None:
                self._timer.cancel()
            seconds = max(0.001, pause.total_seconds() + 0.001)
            self._timer = asyncio.get_running_loop().call_later(seconds, self._loop.wake)
