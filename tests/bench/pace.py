"""The two loads every queue gets: a drain that is timed, and single jobs given to an idle worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from tests.bench.child import Arguments, meter, quiet, spread

GAP_SECONDS = 0.05
SETTLE_SECONDS = 2.0
LAST_SECONDS = 5.0
# Not counted: connections are opened and plans are made by the first ones.
WARM_UP = 10


async def timed_drain(
    arguments: Arguments, drain: Callable[[], Awaitable[None]], *, left: str
) -> dict[str, Any]:
    """Time `drain`; `left` is the query that counts the jobs it should not have left over."""
    connection = await asyncpg.connect(arguments["url"])
    await connection.execute("VACUUM ANALYZE")
    busy = quiet(arguments)
    with meter(arguments) as measured:
        await drain()
    remaining = await connection.fetchval(left)
    await connection.close()
    if remaining:
        raise RuntimeError(f"{remaining} jobs were not done")
    rate = arguments["tasks"] / measured.seconds
    return {"rate": round(rate, 1), "busy_before": busy, **measured.facts()}


class Starts:
    """When each job was asked for and when its handler began."""

    def __init__(self) -> None:
        self._asked: dict[int, float] = {}
        self._began: dict[int, float] = {}
        self._wanted = 0
        self._all = asyncio.Event()

    def began(self, number: int) -> None:
        """Note that a job's handler runs."""
        self._began[number] = time.perf_counter()
        if len(self._began) == self._wanted:
            self._all.set()

    async def measure(
        self, arguments: Arguments, enqueue: Callable[[int], Awaitable[object]]
    ) -> dict[str, Any]:
        """Enqueue single jobs for workers that are idle, one at a time."""
        self._wanted = arguments["tasks"]
        await asyncio.sleep(SETTLE_SECONDS)
        for number in range(-WARM_UP, 0):
            await enqueue(number)
            await asyncio.sleep(GAP_SECONDS)
        await asyncio.sleep(SETTLE_SECONDS)
        self._began.clear()
        busy = quiet(arguments)
        with meter(arguments) as measured:
            for number in range(self._wanted):
                self._asked[number] = time.perf_counter()
                await enqueue(number)
                await asyncio.sleep(GAP_SECONDS)
        await asyncio.wait_for(self._all.wait(), LAST_SECONDS)
        spans = [self._began[number] - asked for number, asked in self._asked.items()]
        return {"spans": spans, "busy_before": busy, **spread(spans), **measured.facts()}
