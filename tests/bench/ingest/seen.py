"""How long the check takes that finds an article seen before, beside many drafts.

What a seen article costs besides (two statements, no request, no store call) is counted by a test:
`tests/integration/ingest/test_seen.py`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import asyncpg
from frontrow.review.v1 import draft_pb2, intake_service_pb2, intake_service_pb2_grpc
from frontrow.worker import Dial

from libs.common import migrate
from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.report import Figure

MODULE = "tests.bench.ingest.seen"
CALLERS = 4
P99_MS = 10.0
_ADDRESS = "https://www.seen.example/slideshow/street-style-"
_DRAFTS = """
INSERT INTO review.street_snap_drafts (job_id, source, source_url, title, city, city_id, year, month)
SELECT 'job-' || n, 'seen', $1::text || n, 'Street style ' || n, 'Copenhagen', c.city_id, 2026, n % 12 + 1
FROM generate_series(1, $2::int4) n,
    (SELECT city_id FROM review.city_aliases WHERE folded = 'copenhagen') c
"""


async def measure(bed: Bed) -> list[Figure]:
    """Ask for seen articles, some callers at once."""
    drafts = bed.amount(200_000, 5_000)
    url = await bed.cluster.make_database("seen")
    await migrate.upgrade(url, "review")
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_DRAFTS, _ADDRESS, drafts)
    finally:
        await connection.close()
    await bed.cluster.settle("seen")
    async with bed.server(url, context="review") as server:
        result = await bed.client(MODULE, server, drafts=drafts, calls=bed.amount(8_000, 1_000))
    spread = result["latency"]
    return [
        Figure(
            f"a seen article among {drafts:,} drafts: p50 of the check {spread['p50_ms']:.1f} ms,"
            f" {result['rate']:,.0f} checks/s",
            f"p99 {spread['p99_ms']:.1f} ms",
            f"≤ {P99_MS:.0f} ms",
            spread["p99_ms"] <= P99_MS,
            result.get("foreign_cores"),
            {"check": result},
        )
    ]


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    calls, drafts = arguments["calls"], arguments["drafts"]
    waits: list[float] = []
    async with Dial(arguments["address"]).aio() as channel:
        await channel.channel_ready()
        stub = intake_service_pb2_grpc.IntakeServiceStub(channel)

        async def check(number: int) -> None:
            request = intake_service_pb2.CheckSourceRequest(
                job_id=f"again-{number}", kind=draft_pb2.GALLERY_KIND_STREET_SNAP, source="seen",
                source_url=f"{_ADDRESS}{number * 7919 % drafts + 1}",
            )  # fmt: skip
            began = time.perf_counter()
            answer = await stub.CheckSource(request, timeout=30.0)
            waits.append(time.perf_counter() - began)
            if answer.verdict != intake_service_pb2.INTAKE_VERDICT_SOURCE_EXISTS:
                raise RuntimeError(f"article {number} was not seen")

        async def caller(numbers: Any) -> None:
            for number in numbers:
                await check(number)

        await caller(range(200))
        waits.clear()
        busy = child.quiet(arguments)
        numbers = iter(range(calls))
        with child.meter(arguments) as measured:
            await asyncio.gather(*(caller(numbers) for _ in range(CALLERS)))
    return {
        "rate": round(calls / measured.seconds, 1),
        "latency": child.spread(waits),
        "busy_before": busy,
        **measured.facts(),
    }


if __name__ == "__main__":
    child.serve(_client)
