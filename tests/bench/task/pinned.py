"""The claim rate while another session pins the snapshot, so that no dead row can be taken away."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from typing import Any

import asyncpg
from frontrow.task.v1 import work_pb2

from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.report import Figure, worst_load
from tests.bench.task.rows import Rows
from tests.bench.task.wire import Wire, completed

MODULE = "tests.bench.task.pinned"
CALLERS = 8
BATCH = 10
TYPE = "pinned"
REFILL = 5_000


async def measure(bed: Bed) -> list[Figure]:
    """Measure the normal rate, then the rate with a transaction open elsewhere; the load is the same."""
    normal_seconds, seconds = bed.amount(60, 15), bed.amount(300, 40)
    reserve = bed.amount(60_000, 30_000)
    url = await bed.cluster.make_task_database("pinned")
    async with bed.server(url) as server:
        normal = await bed.client(MODULE, server, database_url=url, seconds=normal_seconds, reserve=reserve)
        holder = await bed.cluster.connect("pinned")
        try:
            await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            await holder.fetchval("SELECT count(*) FROM task.tasks")
            pinned = await bed.client(MODULE, server, database_url=url, seconds=seconds, reserve=reserve)
        finally:
            await holder.close()
    share = pinned["rate"] / normal["rate"]
    # First fifth against last fifth: what a trend would show, without the noise of single seconds.
    trend = _trend(pinned["each_second"])
    details = {"normal": normal, "pinned": pinned}
    load = worst_load([normal, pinned])
    return [
        Figure(
            f"claims/s over {seconds} s with a snapshot pinned: {pinned['rate']:,.0f},"
            f" normally {normal['rate']:,.0f}",
            f"{share:.0%}", "≥ 80 %", share >= 0.8, load, details,
        ),
        Figure(
            "last fifth of that time against its first",
            f"{trend:.0%}", "≥ 90 % (flat)", trend >= 0.9, load,
        ),
    ]  # fmt: skip


def _trend(each_second: Sequence[int]) -> float:
    fifth = max(1, len(each_second) // 5)
    return statistics.fmean(each_second[-fifth:]) / max(1.0, statistics.fmean(each_second[:fifth]))


async def _clear(connection: asyncpg.Connection[asyncpg.Record], supply: asyncio.Task[None]) -> None:
    """End the supply and remove what is left: the next measurement starts with a stock of its own."""
    supply.cancel()
    await asyncio.gather(supply, return_exceptions=True)
    await connection.execute("DELETE FROM task.tasks WHERE type = $1 AND status = 'pending'", TYPE)
    await connection.close()


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    connection = await asyncpg.connect(arguments["database_url"])
    highest = await connection.fetchval("SELECT count(*) FROM task.tasks")
    rows = Rows(connection, first=highest + 1, age_seconds=0)
    stock = reserve = arguments["reserve"]
    await rows.pending(TYPE, reserve)
    await connection.execute("ANALYZE task.tasks")
    each_second, low = [0] * int(arguments["seconds"]), asyncio.Event()

    async def refill() -> None:
        nonlocal stock
        while True:
            await low.wait()
            low.clear()
            await rows.pending(TYPE, REFILL)
            stock += REFILL

    async def caller(wire: Wire, number: int, began: float) -> None:
        nonlocal stock
        items: list[work_pb2.FinishItem] = []
        while (second := int(time.monotonic() - began)) < len(each_second):
            tasks = await wire.claim(f"caller-{number}", [TYPE], BATCH, finish=items)
            each_second[second] += len(tasks)
            stock -= len(tasks)
            if stock < reserve - REFILL:
                low.set()
            items = [completed(task) for task in tasks]
        await wire.claim(f"caller-{number}", [TYPE], 0, finish=items)

    async with Wire(arguments["address"]) as wire:
        busy = child.quiet(arguments)
        supply = asyncio.create_task(refill())
        with child.meter(arguments) as measured:
            began = time.monotonic()
            await asyncio.gather(*(caller(wire, number, began) for number in range(CALLERS)))
    await _clear(connection, supply)
    rate = round(sum(each_second) / len(each_second), 1)
    return {"rate": rate, "each_second": each_second, "busy_before": busy, **measured.facts()}


if __name__ == "__main__":
    child.serve(_client)
