"""Near-duplicates of single images beside a million others."""

from __future__ import annotations

import time
from typing import Any

from frontrow.review.v1 import media_service_pb2 as pb
from frontrow.review.v1 import media_service_pb2_grpc
from frontrow.worker import Dial

from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.report import Figure
from tests.bench.review import archive

MODULE = "tests.bench.review.similar"
CALL_SECONDS = 30.0


async def measure(bed: Bed) -> list[Figure]:
    """Look for near-duplicates of images all over the archive; half of them have one."""
    url, count = await archive.opened(bed), archive.size(bed)
    calls = bed.amount(1_500, 500)
    connection = await bed.cluster.connect(archive.DATABASE)
    keys = await connection.fetch(
        "SELECT key FROM review.media WHERE id % 10 IN (4, 9) ORDER BY hashint8(id) LIMIT $1", calls
    )
    await connection.close()
    async with bed.server(url, context="review") as server:
        ours = await bed.client(MODULE, server, keys=[row["key"] for row in keys])
    return [
        Figure(
            f"near-duplicates of an image among {count:,} ({ours['found']} found), p50 / p99",
            f"{ours['p50_ms']:.2f} / {ours['p99_ms']:.2f} ms", "p99 ≤ 5 ms", ours["p99_ms"] <= 5.0,
            ours["foreign_cores"], ours,
        )
    ]  # fmt: skip


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    spans: list[float] = []
    found = 0
    async with Dial(arguments["address"]).aio() as channel:
        stub = media_service_pb2_grpc.MediaServiceStub(channel)
        for key in arguments["keys"][:100]:
            await stub.FindSimilar(pb.FindSimilarRequest(media_key=key), timeout=CALL_SECONDS)
        busy = child.quiet(arguments)
        with child.meter(arguments) as measured:
            for key in arguments["keys"]:
                began = time.perf_counter()
                reply = await stub.FindSimilar(pb.FindSimilarRequest(media_key=key), timeout=CALL_SECONDS)
                spans.append(time.perf_counter() - began)
                found += len(reply.similar)
    return {**child.spread(spans), "found": found, "busy_before": busy, **measured.facts()}


if __name__ == "__main__":
    child.serve(_client)
