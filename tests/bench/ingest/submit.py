"""Signed submissions a second, with nonce, job and order committed, against an unsigned call of one row.

Servers, callers and PostgreSQL are processes of their own; both sides take turns on the same PostgreSQL. The
orders are relayed to a task server meanwhile, as in production: that work is on our side alone.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

import asyncpg
from frontrow.client import METHOD, sign
from frontrow.ingest.v1 import gallery_pb2, ingest_service_pb2, ingest_service_pb2_grpc
from frontrow.worker import Dial

from libs.common import migrate
from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.report import Figure, worst_load

MODULE = "tests.bench.ingest.submit"
UNSIGNED = "tests.bench.ingest.unsigned_server"
ROUNDS = 3
CALLERS = 64
CHANNELS = 2
IMAGES = 20
CALL_SECONDS = 30.0
# The budget of a key is not what is measured.
SETTINGS = {
    "FRONTROW_INGEST_SEALING_KEY": "5e" * 32,
    "FRONTROW_INGEST_KEY_CALLS_PER_SECOND": "100000",
    "FRONTROW_INGEST_KEY_BURST": "100000",
}


async def measure(bed: Bed) -> list[Figure]:
    """Let both take turns."""
    calls = bed.amount(6_000, 1_000)
    ours, theirs = [], []
    for _ in range(bed.amount(ROUNDS, 1)):
        ours.append(await _signed(bed, calls))
        url = await bed.cluster.make_database("unsigned")
        async with bed.server(url, context="ingest", module=UNSIGNED) as server:
            theirs.append(await bed.client(MODULE, server, calls=calls, database_url=url))
    rate, base = (statistics.median(result["rate"] for result in results) for results in (ours, theirs))
    waits = [statistics.median(result["latency"]["p99_ms"] for result in each) for each in (ours, theirs)]
    return [
        Figure(
            f"signed, committed with nonce, job and order: {rate:,.0f}/s; unsigned, one row: {base:,.0f}/s",
            f"{rate / base:.2f} ×",
            "≥ 0.80 ×",
            rate >= 0.8 * base,
            worst_load([*ours, *theirs]),
            {"signed": ours, "unsigned": theirs},
        ),
        Figure("signed submissions a second", f"{rate:,.0f}/s", "≥ 1,000/s", rate >= 1_000),
        Figure(f"p99 of a call, {CALLERS} callers: ours, the other", f"{waits[0]:.0f} ms, {waits[1]:.0f} ms"),
    ]


async def _signed(bed: Bed, calls: int) -> dict[str, Any]:
    url = await bed.cluster.make_database("submit")
    for context in ("task", "ingest"):
        await migrate.upgrade(url, context)
    async with (
        bed.server(url, context="task") as task,
        bed.server(url, context="ingest", FRONTROW_TASK_ADDRESS=task.address, **SETTINGS) as server,
    ):
        result = await bed.client(MODULE, server, calls=calls, database_url=url, signed=True)
    await _audit(url, calls)
    return result


async def _audit(url: str, calls: int) -> None:
    """Raise unless each call left its nonce, its job, and its order or the task made of it."""
    connection = await asyncpg.connect(url)
    try:
        found = await connection.fetchrow(
            "SELECT (SELECT count(*) FROM ingest.nonces), (SELECT count(*) FROM ingest.jobs),"
            " (SELECT count(*) FROM ingest.jobs j WHERE EXISTS (SELECT 1 FROM ingest.outbox o"
            "  WHERE o.subject = 'ingest_job:' || j.id) OR EXISTS (SELECT 1 FROM task.tasks t"
            "  WHERE t.id = j.task_id))"
        )
    finally:
        await connection.close()
    if found is None or set(found.values()) != {calls}:
        raise RuntimeError(f"{calls} calls left nonces, jobs, orders: {found}")


def _gallery(number: int) -> gallery_pb2.Gallery:
    address = f"https://bench.example/shows/{number}"
    gallery = gallery_pb2.Gallery(
        kind=gallery_pb2.GALLERY_KIND_RUNWAY, title=f"Show {number}", source="bench", source_url=address,
        brand="Acne Studios", season_code="FW26",
    )  # fmt: skip
    for position in range(1, IMAGES + 1):
        url = f"https://assets.bench.example/photos/{number:08d}/master/w_2560/look-{position}.jpg"
        gallery.images.add(url=url, caption=f"Look {position}", position=position)
    return gallery


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    calls = arguments["calls"]
    channels = [Dial(arguments["address"]).aio() for _ in range(CHANNELS)]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    key = None
    if arguments.get("signed"):
        stub = ingest_service_pb2_grpc.IngestServiceStub(channels[0])
        key = await stub.CreateSpider(ingest_service_pb2.CreateSpiderRequest(name="bench"))
    requests = [
        ingest_service_pb2.SubmitGalleryRequest(
            gallery=_gallery(n), request_id=f"bench-{n}"
        ).SerializeToString()
        for n in range(calls)
    ]
    waiting = iter(requests)
    waits: list[float] = []

    async def caller(channel: Any) -> None:
        submit = channel.unary_unary(
            METHOD, response_deserializer=ingest_service_pb2.SubmitGalleryResponse.FromString
        )
        for request in waiting:
            began = time.perf_counter()
            metadata = sign(request, key_id=key.key_id, secret=key.secret) if key else ()
            answer = await submit(request, metadata=metadata, timeout=CALL_SECONDS)
            waits.append(time.perf_counter() - began)
            if not answer.accepted:
                raise RuntimeError("a submission was not new")

    busy = child.quiet(arguments)
    with child.meter(arguments) as measured:
        await asyncio.gather(*(caller(channels[n % CHANNELS]) for n in range(CALLERS)))
    await asyncio.gather(*(channel.close() for channel in channels))
    return {
        "rate": round(calls / measured.seconds, 1),
        "latency": child.spread(waits),
        "busy_before": busy,
        **measured.facts(),
    }


if __name__ == "__main__":
    child.serve(_client)
