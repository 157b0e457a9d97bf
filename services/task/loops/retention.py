"""Delete finished tasks after their keeping time, in batches."""

from __future__ import annotations

import structlog

from libs.common.lane import Lane
from libs.common.loops import Periodic
from services.task import statements

log = structlog.get_logger(__name__)

MOST = 500


class Retention:
    """Keeps finished tasks, and with them the memory of their ids, for so many days (domain.md 1.13)."""

    def __init__(self, lane: Lane, *, keep_days: float, interval_seconds: float) -> None:
        self._lane = lane
        self._keep_days = keep_days
        self._loop = Periodic("task:retention", interval_seconds, self.step)

    async def start(self) -> None:
        """Begin to delete."""
        await self._loop.start()

    async def stop(self) -> None:
        """Let the batch in hand finish."""
        await self._loop.stop()

    async def step(self) -> None:
        """Delete all that is old now."""
        while True:
            async with self._lane.transaction() as connection:
                rows = await connection.fetch(statements.DELETE_OLD, self._keep_days, MOST)
            if rows:
                log.info("task.old_deleted", count=len(rows))
            if len(rows) < MOST:
                return
