"""Fold what the flushes noted into the counters of the queues."""

from __future__ import annotations

from libs.common.lane import Lane
from libs.common.loops import Periodic
from services.task import statements_queue

MOST = 5_000
IDLE_ROUNDS = 30


class Counters:
    """Folds each interval while this server writes, and every thirtieth interval all the same.

    Any number of servers may fold at once. Nothing depends on it but the cost of reading: what isn't folded
    yet is added up by the reader.
    """

    def __init__(self, lane: Lane, *, interval_seconds: float = 1.0) -> None:
        self._lane = lane
        self._noted = True
        self._round = 0
        self._loop = Periodic("task:counters", interval_seconds, self.step)

    def note(self) -> None:
        """Say that this server has written something."""
        self._noted = True

    async def start(self) -> None:
        """Begin to fold."""
        await self._loop.start()

    async def stop(self) -> None:
        """Let the fold in hand finish."""
        await self._loop.stop()

    async def step(self) -> None:
        """Fold what there is, if there can be anything."""
        self._round += 1
        if not self._noted and self._round % IDLE_ROUNDS:
            return
        self._noted = False
        while True:
            async with self._lane.transaction() as connection:
                folded = await connection.fetchval(statements_queue.FOLD, MOST)
                if self._round % (IDLE_ROUNDS * 20) == 0:
                    await connection.execute(statements_queue.DROP_MINUTES)
            if folded < MOST:
                return
