"""Whether calls that their callers cancel leave anything behind in the server."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

from frontrow.task.v1 import task_service_pb2 as pb

from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.load import resident_bytes
from tests.bench.report import Figure
from tests.bench.task.wire import CALL_SECONDS, Wire

MODULE = "tests.bench.task.memory"
ABREAST = 200
TYPE = "memory"
HELD_SECONDS = 0.02
SETTLE_SECONDS = 5.0


async def measure(bed: Bed) -> list[Figure]:
    """Cancel as many calls twice; what the first round needed must do for the second."""
    calls = bed.amount(25_000, 2_500)
    url = await bed.cluster.make_task_database("memory")
    sizes: list[int] = []
    rounds = []
    async with bed.server(url) as server:
        at_start = resident_bytes(server.pid)
        for _ in range(2):
            rounds.append(await bed.client(MODULE, server, calls=calls))
            await asyncio.sleep(SETTLE_SECONDS)
            sizes.append(resident_bytes(server.pid))
    growth = sizes[1] / sizes[0]
    first, second = (size / 2**20 for size in sizes)
    return [
        Figure(
            f"{calls:,} cancelled watches and polls: {first:.1f} MiB, as many again: {second:.1f} MiB",
            f"{growth:.3f} ×",
            "≤ 1.05 ×",
            growth <= 1.05,
            max(result["foreign_cores"] for result in rounds),
            {"bytes_at_start": at_start, "bytes": sizes, "rounds": rounds},
        )
    ]


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    """Cancel one half as watches that have sent something, one half as long polls that wait."""
    numbers = iter(range(arguments["calls"]))
    async with Wire(arguments["address"]) as wire:
        created = await wire.stub.CreateTask(
            pb.CreateTaskRequest(type=f"{TYPE}.watched"), timeout=CALL_SECONDS
        )

        async def caller() -> None:
            for number in numbers:
                if number % 2:
                    await _watch(wire, created.task.id)
                else:
                    await _poll(wire, number)

        with child.meter(arguments) as measured:
            await asyncio.gather(*(caller() for _ in range(ABREAST)))
    return {"rate": round(arguments["calls"] / measured.seconds, 1), **measured.facts()}


async def _watch(wire: Wire, task_id: str) -> None:
    call = wire.stub.WatchTasks(pb.WatchTasksRequest(task_ids=[task_id]))
    try:
        async for _ in call:
            break
    finally:
        call.cancel()


async def _poll(wire: Wire, number: int) -> None:
    request = pb.ClaimTasksRequest(worker_id=f"w{number}", types=[f"{TYPE}.empty"], max_tasks=1)
    request.wait.FromTimedelta(datetime.timedelta(seconds=60))
    call = asyncio.ensure_future(wire.stub.ClaimTasks(request, timeout=90))
    await asyncio.wait({call}, timeout=HELD_SECONDS)
    if call.done():
        await call  # raises what went wrong
        raise RuntimeError("a long poll that nobody answered has ended")
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


if __name__ == "__main__":
    child.serve(_client)
