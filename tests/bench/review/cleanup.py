"""A clean-up of a million images of which a hundredth is referred to by nothing."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import asyncpg
from frontrow.review.v1 import media_service_pb2 as pb
from frontrow.review.v1 import media_service_pb2_grpc
from frontrow.worker import Dial

from libs.common.interceptors.context import ACTOR_KEY, encode_actor
from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.load import resident_bytes
from tests.bench.report import Figure
from tests.bench.review import archive

MODULE = "tests.bench.review.cleanup"
CALL_SECONDS = 30.0
SAMPLE_SECONDS = 0.005
MEMORY_SHARE = 1.15

# How long the oldest transaction of the server that has locked or written something has been open.
_OLDEST = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity
WHERE application_name = 'frontrow-review' AND backend_xid IS NOT NULL
"""


async def measure(bed: Bed) -> list[Figure]:
    """Report, mark, and, when the marks are old enough, delete; the objects are files."""
    url, count = await archive.opened(bed), archive.size(bed)
    objects = bed.folder / "objects"
    connection = await bed.cluster.connect(archive.DATABASE)
    keys = await connection.fetch(f"SELECT key FROM review.media WHERE {archive.ORPHAN}")
    await connection.close()
    await asyncio.to_thread(_put, objects, [row["key"] for row in keys])
    passes: dict[str, dict[str, Any]] = {}
    async with bed.server(url, context="review", FRONTROW_OBJECT_STORE=str(objects)) as server:
        for name, apply in (("report", False), ("mark", True), ("delete", True)):
            if name == "delete":
                await _age_marks(bed)
            passes[name] = await bed.client(MODULE, server, apply=apply, url=url, server_pid=server.pid)
    if passes["mark"]["marked"] != len(keys) or passes["delete"]["deleted"] != len(keys):
        raise RuntimeError(f"of {len(keys)} images without references others were taken: {passes}")
    scan, gone = passes["mark"], passes["delete"]
    grown = max(result["peak_bytes"] for result in passes.values()) / passes["report"]["start_bytes"]
    longest = max(result["longest_ms"] for result in passes.values())
    load = max(result["foreign_cores"] for result in passes.values())
    return [
        Figure(
            f"scan of {count:,} images that marks the {len(keys):,} that nothing refers to (a report alone: "
            f"{passes['report']['seconds']:.0f} s)",
            f"{scan['seconds']:.1f} s", "≤ 60 s", scan["seconds"] <= 60, load, passes,
        ),
        Figure(
            "the second one, which deletes them with their files", f"{gone['seconds']:.1f} s",
            foreign_cores=gone["foreign_cores"],
        ),
        Figure(
            "the server's memory, at most", f"{grown:.2f} ×", f"≤ {MEMORY_SHARE} ×",
            grown <= MEMORY_SHARE, load,
        ),
        Figure("longest time that a lock was held", f"{longest:.0f} ms", "≤ 50 ms", longest <= 50, load),
    ]  # fmt: skip


def _put(objects: Path, keys: list[str]) -> None:
    for key in keys:
        path = objects / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"image")


async def _age_marks(bed: Bed) -> None:
    connection = await bed.cluster.connect(archive.DATABASE)
    await connection.execute(
        "UPDATE review.media SET marked_at = marked_at - interval '2 days' WHERE marked_at IS NOT NULL"
    )
    await connection.execute("VACUUM review.media")
    await connection.close()


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    samples: list[float] = [0.0]
    start = peak = resident_bytes(arguments["server_pid"])
    connection = await asyncpg.connect(arguments["url"])

    async def sample() -> None:
        nonlocal peak
        while True:
            samples.append(await connection.fetchval(_OLDEST))
            peak = max(peak, resident_bytes(arguments["server_pid"]))
            await asyncio.sleep(SAMPLE_SECONDS)

    metadata = ((ACTOR_KEY, encode_actor("ops")),)
    request, marked, deleted, calls = pb.CleanUpMediaRequest(apply=arguments["apply"]), 0, 0, 0
    async with Dial(arguments["address"]).aio() as channel:
        stub = media_service_pb2_grpc.MediaServiceStub(channel)
        busy = child.quiet(arguments)
        sampling = asyncio.create_task(sample())
        began = time.perf_counter()
        with child.meter(arguments) as measured:
            while calls == 0 or request.page_token:
                reply = await stub.CleanUpMedia(request, timeout=CALL_SECONDS, metadata=metadata)
                marked, deleted, calls = marked + reply.marked_count, deleted + reply.deleted_count, calls + 1
                request.page_token = reply.next_page_token
        seconds = time.perf_counter() - began
        sampling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sampling
    await connection.close()
    return {
        **measured.facts(), "seconds": seconds, "calls": calls, "marked": marked, "deleted": deleted,
        "longest_ms": round(max(samples) * 1e3, 1), "samples": len(samples),
        "start_bytes": start, "peak_bytes": peak, "busy_before": busy,
    }  # fmt: skip


if __name__ == "__main__":
    child.serve(_client)
