"""What it costs PostgreSQL to keep ten thousand leases alive."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import asyncpg
from frontrow.task.v1 import task_service_pb2 as pb
from frontrow.task.v1 import work_pb2

from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.cluster import STATISTICS_SECONDS
from tests.bench.report import Figure
from tests.bench.task.wire import CALL_SECONDS, LARGEST_BATCH, Wire

MODULE = "tests.bench.task.leases"
WORKERS = 100
LEASES_EACH = 100
EVERY_SECONDS = 10.0
TYPE = "leases"

_UPDATES = """
SELECT n_tup_upd AS updates, n_tup_hot_upd AS hot FROM pg_stat_user_tables
WHERE schemaname = 'task' AND relname = 'tasks'
"""


async def measure(bed: Bed) -> list[Figure]:
    """Let every worker beat every ten seconds for all its runs: a thousand renewals a second in all."""
    seconds = bed.amount(60, 20)
    url = await bed.cluster.make_task_database("leases")
    async with bed.server(url) as server:
        result = await bed.client(MODULE, server, database_url=url, seconds=seconds, workers=WORKERS)
    cores, share = result["cores"]["postgres"], result["hot"] / max(1, result["updates"])
    rate = result["updates"] / result["seconds"]
    return [
        Figure(
            f"PostgreSQL with {WORKERS * LEASES_EACH:,} leases, {rate:,.0f} renewals/s, upkeep included",
            f"{cores:.1%} of a core", "≤ 10 %", cores <= 0.10, result["foreign_cores"], result,
        ),
        Figure(
            "updates that touched no index (HOT)", f"{share:.1%}", "≥ 95 %", share >= 0.95,
            result["foreign_cores"],
        ),
    ]  # fmt: skip


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    connection = await asyncpg.connect(arguments["database_url"])
    seconds, workers = arguments["seconds"], arguments["workers"]
    async with Wire(arguments["address"]) as wire:
        await wire.create_many(TYPE, workers * LEASES_EACH)
        held = [await _held(wire, number) for number in range(workers)]
        await connection.execute("VACUUM ANALYZE")
        # The vacuum of the claims is done, and the beats' own rhythm has begun, before anything is counted.
        began = time.monotonic()
        ends = began + EVERY_SECONDS + STATISTICS_SECONDS + seconds + STATISTICS_SECONDS
        beats = [asyncio.create_task(_beat(wire, number, leases, ends)) for number, leases in enumerate(held)]
        await asyncio.sleep(EVERY_SECONDS + STATISTICS_SECONDS)
        before = await connection.fetchrow(_UPDATES)
        with child.meter(arguments) as measured:
            await asyncio.sleep(seconds)
        after = await connection.fetchrow(_UPDATES)
        assert before is not None
        assert after is not None
        lost = sum(await asyncio.gather(*beats))
    await connection.close()
    if lost:
        raise RuntimeError(f"{lost} leases were lost although their worker beat")
    return {
        "updates": after["updates"] - before["updates"],
        "hot": after["hot"] - before["hot"],
        **measured.facts(),
    }


async def _held(wire: Wire, number: int) -> list[work_pb2.Lease]:
    tasks = await wire.claim(f"w{number}", [TYPE], min(LARGEST_BATCH, LEASES_EACH))
    return [work_pb2.Lease(task_id=task.id, version=task.version) for task in tasks]


async def _beat(wire: Wire, number: int, leases: list[work_pb2.Lease], ends: float) -> int:
    """Beat in a rhythm of one's own; return how many leases were not renewed."""
    request = pb.HeartbeatRequest(worker_id=f"w{number}", leases=leases)
    lost = 0
    due = time.monotonic() + EVERY_SECONDS * number / WORKERS
    while due < ends:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        response = await wire.stub.Heartbeat(request, timeout=CALL_SECONDS)
        lost += sum(result.outcome != work_pb2.LEASE_OUTCOME_RENEWED for result in response.results)
        due += EVERY_SECONDS
    return lost


if __name__ == "__main__":
    child.serve(_client)
