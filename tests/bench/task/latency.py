"""From the call that creates a task to the start of its handler, idle, with 50 slots waiting.

Every queue is one worker process as its own library makes it, ours with `frontrow.worker`, all with as many
slots. What the library adds shows beside 50 bare claims that wait.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

from frontrow.task.v1 import task_service_pb2 as pb
from frontrow.task.v1 import work_pb2
from frontrow.worker import Completed, Outcome, Run, Worker

from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.pace import Starts
from tests.bench.report import Figure, worst_load
from tests.bench.task.wire import CALL_SECONDS, Wire, completed

MODULE = "tests.bench.task.latency"
SLOTS = 50
WAIT_SECONDS = 60.0
TYPE = "latency"
PEERS: tuple[tuple[str, dict[str, int]], ...] = (
    ("procrastinate", {}),
    ("pgqueuer", {"batch": 5}),
    ("oban", {}),
)
ROUNDS = 3
BARE = f"{SLOTS} bare claims, without the worker library"


async def measure(bed: Bed) -> list[Figure]:
    """Take turns; the spans of all turns count together."""
    tasks = bed.amount(200, 60)
    url = await bed.cluster.make_task_database("latency")
    results: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _ in range(bed.amount(ROUNDS, 1)):
        async with bed.server(url) as server:
            results["ours"].append(await bed.client(MODULE, server, tasks=tasks, bare=False))
            if not results[BARE]:
                results[BARE].append(await bed.client(MODULE, server, tasks=tasks, bare=True))
        for name, setting in PEERS:
            result = await bed.peer(name, "latency", tasks=tasks, concurrency=SLOTS, **setting)
            results[result["peer"]].append(result)
    return _figures(results)


def _figures(results: dict[str, list[dict[str, Any]]]) -> list[Figure]:
    loads = {name: worst_load(measured) for name, measured in results.items()}
    spreads = {
        name: child.spread([span for result in measured for span in result.pop("spans")])
        for name, measured in results.items()
    }
    details = {"spreads": spreads, "rounds": dict(results)}
    ours = spreads["ours"]
    peers = [name for name in spreads if name not in {"ours", BARE}]
    figures: list[Figure] = []
    for name, factor in (("p50_ms", 1.2), ("p99_ms", 1.5)):
        best = min(peers, key=lambda peer: spreads[peer][name])
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
    for name in (*peers, BARE):
        value = f"{spreads[name]['p50_ms']:.2f} / {spreads[name]['p99_ms']:.2f} ms"
        figures.append(Figure(f"{name}, p50 / p99", value, foreign_cores=loads[name]))
    return figures


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    starts = Starts()
    working = _bare_claims if arguments["bare"] else _library
    async with Wire(arguments["address"]) as wire, working(wire, arguments["address"], starts):

        def create(number: int) -> Awaitable[object]:
            request = pb.CreateTaskRequest(type=TYPE)
            request.payload.update({"number": number})
            return wire.stub.CreateTask(request, timeout=CALL_SECONDS)

        return await starts.measure(arguments, create)


@asynccontextmanager
async def _library(_wire: Wire, address: str, starts: Starts) -> AsyncIterator[None]:
    """Run a worker process as users of the library do."""

    async def handle(run: Run) -> Outcome:
        starts.began(int(run.payload["number"]))
        return Completed()

    worker = Worker(target=address, types=[TYPE], handler=handle, concurrency=SLOTS)
    await worker.start()
    try:
        yield
    finally:
        await worker.stop()


@asynccontextmanager
async def _bare_claims(wire: Wire, _address: str, starts: Starts) -> AsyncIterator[None]:
    """Let as many claims wait, each for one task."""
    workers = [asyncio.create_task(_claim_on(wire, f"w{number}", starts)) for number in range(SLOTS)]
    try:
        yield
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def _claim_on(wire: Wire, name: str, starts: Starts) -> None:
    finish: list[work_pb2.FinishItem] = []
    while True:
        # A call with finishes never waits: an idle worker makes a second one.
        wait_seconds = 0.0 if finish else WAIT_SECONDS
        tasks = await wire.claim(name, [TYPE], 1, finish=finish, wait_seconds=wait_seconds)
        for task in tasks:
            starts.began(int(task.payload["number"]))
        finish = [completed(task) for task in tasks]


if __name__ == "__main__":
    child.serve(_client)
