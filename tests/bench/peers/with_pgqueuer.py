"""PgQueuer: one worker process, jobs claimed in batches, all in the same process as the handlers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from importlib.metadata import version
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from tests.bench.child import Arguments, serve
from tests.bench.pace import Starts, timed_drain


async def measure(arguments: Arguments) -> dict[str, Any]:
    """Drain jobs (`drain`) or start single ones (`latency`) with `concurrency` slots, claims of `batch`."""
    starts = Starts()
    async with (
        asyncpg.create_pool(arguments["url"], min_size=4, max_size=10) as own,
        asyncpg.create_pool(arguments["url"], min_size=4, max_size=10) as workers,
    ):
        queries = Queries(AsyncpgPoolDriver(own))
        await queries.install()
        queue = PgQueuer(AsyncpgPoolDriver(workers))

        @queue.entrypoint("noop")
        async def noop(job: Any) -> None:
            starts.began(int(job.payload))

        def work(mode: QueueExecutionMode) -> Any:
            return queue.run(
                batch_size=arguments["batch"],
                max_concurrent_tasks=arguments["concurrency"],
                mode=mode,
                dequeue_timeout=timedelta(seconds=5),
            )

        if arguments["operation"] == "drain":
            count = arguments["tasks"]
            payloads: list[bytes | None] = [str(number).encode() for number in range(count)]
            await queries.enqueue(["noop"] * count, payloads, [0] * count)
            left = "SELECT count(*) FROM pgqueuer"
            result = await timed_drain(arguments, lambda: work(QueueExecutionMode.drain), left=left)
        else:
            worker = asyncio.create_task(work(QueueExecutionMode.continuous))
            result = await starts.measure(
                arguments, lambda number: queries.enqueue("noop", str(number).encode(), 0)
            )
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
    return {"peer": f"PgQueuer {version('pgqueuer')}", **result}


if __name__ == "__main__":
    serve(measure)
