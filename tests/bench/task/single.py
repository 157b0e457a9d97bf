"""Many workers that each claim one task and finish it by a call of its own."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.report import Figure, worst_load
from tests.bench.task.wire import Wire, completed, noop, settle

MODULE = "tests.bench.task.single"
WORKERS = 50
ROUNDS = 3


async def measure(bed: Bed) -> list[Figure]:
    """Take turns with Procrastinate, which works with single jobs too."""
    tasks = bed.amount(5_000, 1_000)
    url = await bed.cluster.make_task_database("single")
    apart, together, peer = [], [], []
    for _ in range(bed.amount(ROUNDS, 1)):
        async with bed.server(url) as server:
            given = {"workers": WORKERS, "tasks": tasks, "database_url": url}
            apart.append(await bed.client(MODULE, server, **given))
            together.append(await bed.client(MODULE, server, together=True, **given))
        peer.append(await bed.peer("procrastinate", "drain", tasks=tasks, concurrency=WORKERS))
    rate, theirs = (statistics.median(result["rate"] for result in results) for results in (apart, peer))
    one_call = statistics.median(result["rate"] for result in together)
    return [
        Figure(
            f"claim, then finish: {rate:,.0f} tasks/s against {peer[0]['peer']}: {theirs:,.0f}/s",
            f"{rate / theirs:.2f} ×",
            "≥ 2.0 ×",
            rate >= 2.0 * theirs,
            worst_load([*apart, *peer]),
            {"ours": apart, "peer": peer},
        ),
        Figure(
            "finish and claim in one call, one task each",
            f"{one_call:,.0f}/s",
            foreign_cores=worst_load(together),
            details={"ours": together},
        ),
    ]


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    count, workers = arguments["tasks"], arguments["workers"]
    task_type = f"single.{time.monotonic_ns()}"
    work = _together if arguments.get("together") else _apart
    async with Wire(arguments["address"]) as wire:
        await wire.create_many(task_type, count)
        await settle(arguments["database_url"])
        busy = child.quiet(arguments)
        with child.meter(arguments) as measured:
            done = sum(
                await asyncio.gather(*(work(wire, f"w{number}", task_type) for number in range(workers)))
            )
    if done != count:
        raise RuntimeError(f"{done} of {count} tasks were done")
    return {"rate": round(count / measured.seconds, 1), "busy_before": busy, **measured.facts()}


async def _apart(wire: Wire, worker: str, task_type: str) -> int:
    done = 0
    while tasks := await wire.claim(worker, [task_type], 1):
        await noop(tasks[0])
        await wire.finish(worker, [completed(tasks[0])])
        done += 1
    return done


async def _together(wire: Wire, worker: str, task_type: str) -> int:
    done = 0
    tasks = await wire.claim(worker, [task_type], 1)
    while tasks:
        await noop(tasks[0])
        done += 1
        tasks = await wire.claim(worker, [task_type], 1, finish=[completed(tasks[0])])
    return done


if __name__ == "__main__":
    child.serve(_client)
