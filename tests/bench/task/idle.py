"""What a thousand workers that wait cost the database."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.cluster import STATISTICS_SECONDS
from tests.bench.report import Figure
from tests.bench.task.wire import Wire

MODULE = "tests.bench.task.idle"
WAITING = 1_000
WAIT_SECONDS = 60.0
TYPES = 1
CONNECTED_SECONDS = 8.0


async def measure(bed: Bed) -> list[Figure]:
    """Count the transactions of a server whose only callers wait, the server's own upkeep included."""
    seconds = bed.amount(90, 20)
    url = await bed.cluster.make_task_database("idle")
    # Every wait is a call in progress.
    async with bed.server(url, FRONTROW_MAX_CONCURRENT_RPCS=str(WAITING + 200)) as server:
        client = asyncio.create_task(
            bed.client(
                MODULE, server, waiting=WAITING, seconds=seconds + STATISTICS_SECONDS + CONNECTED_SECONDS + 5
            )
        )
        await asyncio.sleep(CONNECTED_SECONDS + STATISTICS_SECONDS)
        before, began = await bed.cluster.transactions("idle"), time.perf_counter()
        with bed.meter(server) as measured:
            await asyncio.sleep(seconds)
        after = await bed.cluster.transactions("idle")
        rate = (after - before) / (time.perf_counter() - began) / TYPES
        waits = await client
    if waits["failed"]:
        raise RuntimeError(f"{waits['failed']} waits failed, the first with {waits['error']}")
    return [
        Figure(
            f"transactions a second and type with {WAITING:,} workers waiting",
            f"{rate:.2f}/s", "≤ 1.0/s", rate <= 1.0, measured.foreign_cores, measured.facts(),
        ),
        Figure(
            "processor share of the server meanwhile",
            f"{measured.cores['server']:.3f} cores", foreign_cores=measured.foreign_cores,
        ),
    ]  # fmt: skip


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    failures: list[str] = []
    until = time.monotonic() + arguments["seconds"]

    async def worker(wire: Wire, number: int) -> None:
        # The waits of a fleet end one after the other, not all at once.
        wait_seconds = WAIT_SECONDS * (number + 1) / arguments["waiting"]
        while (left := until - time.monotonic()) > 0:
            try:
                await wire.claim(
                    f"w{number}", [f"idle.{number % TYPES}"], 1, wait_seconds=min(wait_seconds, left + 0.1)
                )
                wait_seconds = WAIT_SECONDS
            except Exception as error:  # noqa: BLE001 - told at the end
                failures.append(repr(error))
                await asyncio.sleep(1.0)

    async with Wire(arguments["address"]) as wire:
        await asyncio.gather(*(worker(wire, number) for number in range(arguments["waiting"])))
    return {"failed": len(failures), "error": failures[0] if failures else ""}


if __name__ == "__main__":
    child.serve(_client)
