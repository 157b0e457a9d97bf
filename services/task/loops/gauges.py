"""Look how full the queues are, where somebody is told of metrics."""

from __future__ import annotations

from libs.common.db import Database
from libs.common.loops import Periodic
from services.task import repository_queue
from services.task.metrics import MOST_TYPES, TaskMetrics

INTERVAL_SECONDS = 10.0


class QueueGauges:
    """Reads the counters of all queues every ten seconds; while it can't, nothing is told of them.

    Each server tells the same of the one database: take the highest of them.
    """

    def __init__(self, database: Database, measured: TaskMetrics) -> None:
        self._database = database
        self._metrics = measured
        self._loop = Periodic("task:gauges", INTERVAL_SECONDS, self.step)

    async def start(self) -> None:
        """Begin to look."""
        await self._loop.start()

    async def stop(self) -> None:
        """Let the look in hand finish."""
        await self._loop.stop()

    async def step(self) -> None:
        """Look once."""
        try:
            async with self._database.statements() as session:
                rows = await repository_queue.queues(session, [], after="", limit=MOST_TYPES)
            self._metrics.queues(rows)
        except BaseException:
            self._metrics.queues(())
            raise
