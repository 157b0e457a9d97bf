"""From the call that creates a task to the start of its handler, idle, with 50 workers waiting."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any

from frontrow.task.v1 import task_pb2, work_pb2
from frontrow.task.v1 import task_service_pb2 as pb

from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.pace import Starts
from tests.bench.report import Figure, worst_load
from tests.bench.task.wire import CALL_SECONDS, Wire, completed

MODULE = "tests.bench.task.latency"
WAITING = 50
WAIT_SECONDS = 60.0
TYPE = "latency"
PEERS = (
    ("procrastinate", {"concurrency": 10}),
    ("pgqueuer", {"concurrency": 10, "batch": 5}),
    ("oban", {"concurrency": 10}),
)
ROUNDS = 3


async def measure(bed: Bed) -> list[Figure]:
    """Take turns; the spans of all turns count together."""
    tasks = bed.amount(200, 60)
    url = await bed.cluster.make_task_database("latency")
    results: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _ in range(bed.amount(ROUNDS, 1)):
        async with bed.server(url) as server:
            results["ours"].append(await bed.client(MODULE, server, tasks=tasks))
        for name, setting in PEERS:
            result = await bed.peer(name, "latency", tasks=tasks, **setting)
            results[result["peer"]].append(result)
    return _figures(results)


def _figures(results: dict[str, list[dict[str, Any]]]) -> list[Figure]:
    loads = {name: worst_load(measured) for name, measured in results.items()}
    spreads = {
        name: child.spread([span for result in measured for span in result.pop("spans")])
        for name, measured in results.items()
    }
    details = {"spreads": spreads, "rounds": dict(results)}
    ours = spreads.pop("ours")
    figures: list[Figure] = []
    for name, factor in (("p50_ms", 1.2), ("p99_ms", 1.5)):
        best = min(spreads, key=lambda peer: spreads[peer][name])
        theirs = spreads[best][name]
        figures.append(
            Figure(
                f"create → start, {name[:3]}: {ours[name]:.2f} ms; best peer {best}: {theirs:.2f} ms",
                f"{ours[name] / theirs:.2f} ×",
                f"≤ {factor} ×",
                ours[name] <= factor * theirs,
                max(loads["ours"], loads[best]),
                details if not figures else {},
            )
        )
    for name, spread in spreads.items():
        value = f"{spread['p50_ms']:.2f} / {spread['p99_ms']:.2f} ms"
        figures.append(Figure(f"{name}, p50 / p99", value, foreign_cores=loads[name]))
    return figures


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    starts = Starts()

    async def handler(task: task_pb2.Task) -> None:
        starts.began(int(task.subject))

    async with Wire(arguments["address"]) as wire:
        workers = [asyncio.create_task(_worker(wire, f"w{number}", handler)) for number in range(WAITING)]
        result = await starts.measure(
            arguments,
            lambda number: wire.stub.CreateTask(
                pb.CreateTaskRequest(type=TYPE, subject=str(number)), timeout=CALL_SECONDS
            ),
        )
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return result


async def _worker(
    wire: Wire, name: str, handler: Callable[[task_pb2.Task], Coroutine[Any, Any, None]]
) -> None:
    finish: list[work_pb2.FinishItem] = []
    while True:
        # A call with finishes never waits: an idle worker makes a second one.
        wait_seconds = 0.0 if finish else WAIT_SECONDS
        tasks = await wire.claim(name, [TYPE], 1, finish=finish, wait_seconds=wait_seconds)
        for task in tasks:
            await asyncio.create_task(handler(task))
        finish = [completed(task) for task in tasks]


if __name__ == "__main__":
    child.serve(_client)
