"""Drain no-op tasks by calls that finish a batch and claim the next, beside the other queues at their best.

PgQueuer claims in the process of its handlers; here a server stands between, and client, server and database
share the same processors.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from frontrow.worker import Completed, Run, Worker

from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.report import Figure, worst_load
from tests.bench.task.wire import Wire, completed, noop, settle

MODULE = "tests.bench.task.drain"
# (callers, tasks a call); each also with the worker library, whose slots are the product.
SETTINGS = ((4, 100), (8, 100), (8, 50), (10, 10))
WORKER_SLOTS = 400
PGQUEUER = ({"concurrency": 200, "batch": 100}, {"concurrency": 50, "batch": 25})
PROCRASTINATE = ({"concurrency": 10}, {"concurrency": 50})
OBAN = ({"concurrency": 50},)
ROUNDS = 3

Results = dict[str, list[dict[str, Any]]]


async def measure(bed: Bed) -> list[Figure]:
    """Take turns with the others, so that a busy minute of the machine hits everybody."""
    tasks = bed.amount(20_000, 4_000)
    ours: Results = defaultdict(list)
    peers: dict[str, Results] = defaultdict(lambda: defaultdict(list))
    url = await bed.cluster.make_task_database("drain")
    rounds = bed.amount(ROUNDS, 1)
    for turn in range(rounds):
        async with bed.server(url) as server:
            for callers, batch in SETTINGS:
                given = {"callers": callers, "batch": batch, "tasks": tasks, "database_url": url}
                ours[f"{callers} × {batch}"].append(await bed.client(MODULE, server, **given))
            given = {"slots": WORKER_SLOTS, "tasks": tasks, "database_url": url}
            ours["worker library"].append(await bed.client(MODULE, server, **given))
        turns: dict[str, Sequence[dict[str, int]]] = {"pgqueuer": PGQUEUER}
        if turn == 0:  # slow, and far behind: once is enough
            turns |= {"procrastinate": PROCRASTINATE, "oban": OBAN}
        for name, settings in turns.items():
            for setting in settings:
                peers[name][str(setting)].append(await bed.peer(name, "drain", tasks=tasks, **setting))
    return list(_figures(ours, peers))


def _best(results: Results) -> tuple[str, float]:
    """Return the best setting and the median of its rates."""
    rates = {
        setting: statistics.median(result["rate"] for result in measured)
        for setting, measured in results.items()
    }
    return max(rates.items(), key=lambda item: item[1])


def _figures(ours: Results, peers: dict[str, Results]) -> list[Figure]:
    by_calls = {setting: measured for setting, measured in ours.items() if setting != "worker library"}
    setting, rate = _best(by_calls)
    load = worst_load(ours[setting])
    figures = [
        Figure(f"tasks drained a second, {setting}", f"{rate:,.0f}/s", foreign_cores=load, details=dict(ours))
    ]
    for name, factor in (("pgqueuer", 1.0), ("procrastinate", 15.0), ("oban", None)):
        peer_setting, peer_rate = _best(peers[name])
        title = peers[name][peer_setting][0]["peer"]
        ratio = rate / peer_rate
        figures.append(
            Figure(
                f"against {title}, {peer_setting}: {peer_rate:,.0f}/s",
                f"{ratio:.2f} ×",
                f"≥ {factor:.1f} ×" if factor else "",
                ratio >= factor if factor else None,
                worst_load(peers[name][peer_setting]),
                dict(peers[name]),
            )
        )
    library = statistics.median(result["rate"] for result in ours["worker library"])
    created = statistics.median(r["created_rate"] for results in ours.values() for r in results)
    return [
        *figures,
        Figure(
            "with the worker library", f"{library:,.0f}/s", foreign_cores=worst_load(ours["worker library"])
        ),
        Figure("tasks created a second, 100 a call", f"{created:,.0f}/s"),
    ]


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    count = arguments["tasks"]
    task_type = f"drain.{time.monotonic_ns()}"
    async with Wire(arguments["address"]) as wire:
        began = time.perf_counter()
        await wire.create_many(task_type, count)
        created_rate = count / (time.perf_counter() - began)
        await settle(arguments["database_url"])
        busy = child.quiet(arguments)
        with child.meter(arguments) as measured:
            if "slots" in arguments:
                done = await _drain_with_library(arguments, task_type)
            else:
                done = await _drain_with_calls(wire, arguments, task_type)
    if done != count:
        raise RuntimeError(f"{done} of {count} tasks were drained")
    return {
        "rate": round(count / measured.seconds, 1),
        "created_rate": round(created_rate, 1),
        "busy_before": busy,
        **measured.facts(),
    }


async def _drain_with_calls(wire: Wire, arguments: child.Arguments, task_type: str) -> int:
    done = 0

    async def caller(number: int) -> None:
        nonlocal done
        worker = f"caller-{number}"
        tasks = await wire.claim(worker, [task_type], arguments["batch"])
        while tasks:
            for task in tasks:
                await noop(task)
            items = [completed(task) for task in tasks]
            done += len(items)
            tasks = await wire.claim(worker, [task_type], arguments["batch"], finish=items)

    await asyncio.gather(*(caller(number) for number in range(arguments["callers"])))
    return done


async def _drain_with_library(arguments: child.Arguments, task_type: str) -> int:
    done = 0
    all_done = asyncio.Event()

    async def handler(_run: Run) -> Completed:
        nonlocal done
        done += 1
        if done == arguments["tasks"]:
            all_done.set()
        return Completed()

    worker = Worker(
        target=arguments["address"], types=[task_type], handler=handler, concurrency=arguments["slots"]
    )
    await worker.start()
    await all_done.wait()
    await worker.stop()  # sends the last finishes
    return done


if __name__ == "__main__":
    child.serve(_client)
