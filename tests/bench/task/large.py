"""Claims and statistics beside very many rows that wait and very many that are done."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from frontrow.task.v1 import task_service_pb2 as pb

from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.report import Figure
from tests.bench.task.rows import Rows
from tests.bench.task.wire import CALL_SECONDS, Wire, completed

MODULE = "tests.bench.task.large"
TYPES = ("large.0", "large.1", "large.2", "large.3")


async def measure(bed: Bed) -> list[Figure]:
    """Fill the tables, then make single calls one after the other."""
    pending, finished = bed.amount(1_000_000, 100_000), bed.amount(10_000_000, 1_000_000)
    url = await bed.cluster.make_task_database("large")
    began = time.monotonic()
    await asyncio.gather(
        *(
            _fill(bed, number, pending=pending // len(TYPES), finished=finished // len(TYPES))
            for number in range(len(TYPES))
        )
    )
    await bed.cluster.settle("large")
    filled_seconds = round(time.monotonic() - began, 1)
    async with bed.server(url) as server:
        result = await bed.client(MODULE, server, calls=bed.amount(3_000, 600))
    await bed.cluster.drop_database("large")
    claim, load = result["claim"], result["foreign_cores"]
    details = {**result, "filled_seconds": filled_seconds}
    statistics = result["statistics"]
    return [
        Figure(
            f"claim beside {pending:,} pending and {finished:,} finished tasks, p50 / p99",
            f"{claim['p50_ms']:.2f} / {claim['p99_ms']:.2f} ms",
            "p99 ≤ 5 ms", claim["p99_ms"] <= 5.0, load, details,
        ),
        Figure(
            f"statistics of {len(TYPES)} queues, p50 / p99",
            f"{statistics['p50_ms']:.2f} / {statistics['p99_ms']:.2f} ms",
            "p99 ≤ 10 ms", statistics["p99_ms"] <= 10.0, load,
        ),
    ]  # fmt: skip


async def _fill(bed: Bed, number: int, *, pending: int, finished: int) -> None:
    """Fill one queue, by a connection of its own."""
    connection = await bed.cluster.connect("large")
    try:
        await connection.execute("SET synchronous_commit = off")
        rows = Rows(connection, first=1 + number * (pending + finished))
        await rows.finished(TYPES[number], finished)
        await rows.pending(TYPES[number], pending)
    finally:
        await connection.close()


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    claims: list[float] = []
    statistics: list[float] = []
    async with Wire(arguments["address"]) as wire:
        for _ in range(20):  # plans and caches, as on any server that has run for a while
            tasks = await wire.claim("w", [TYPES[0]], 1)
            await wire.finish("w", [completed(task) for task in tasks])
        busy = child.quiet(arguments)
        with child.meter(arguments) as measured:
            for _ in range(arguments["calls"]):
                began = time.perf_counter()
                tasks = await wire.claim("w", [TYPES[0]], 1)
                claims.append(time.perf_counter() - began)
                await wire.finish("w", [completed(task) for task in tasks])
            for _ in range(arguments["calls"] // 5):
                began = time.perf_counter()
                await wire.stub.ListQueues(pb.ListQueuesRequest(), timeout=CALL_SECONDS)
                statistics.append(time.perf_counter() - began)
    return {
        "claim": child.spread(claims),
        "statistics": child.spread(statistics),
        "busy_before": busy,
        **measured.facts(),
    }


if __name__ == "__main__":
    child.serve(_client)
