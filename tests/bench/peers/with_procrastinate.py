"""Procrastinate: one worker process with its own pool."""

from __future__ import annotations

import asyncio
import contextlib
from importlib.metadata import version
from typing import Any

from procrastinate import App, PsycopgConnector

from tests.bench.child import Arguments, serve
from tests.bench.pace import Starts, timed_drain

CHUNK = 1000


async def measure(arguments: Arguments) -> dict[str, Any]:
    """Drain jobs (`drain`) or start single ones (`latency`) with `concurrency` slots."""
    app = App(connector=PsycopgConnector(conninfo=arguments["url"], min_size=4, max_size=20))
    starts = Starts()

    @app.task(name="noop")
    async def noop(number: int) -> None:
        starts.began(number)

    def work(*, stay: bool) -> Any:
        return app.run_worker_async(
            wait=stay,
            listen_notify=stay,
            concurrency=arguments["concurrency"],
            install_signal_handlers=False,
        )

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        if arguments["operation"] == "drain":
            for first in range(0, arguments["tasks"], CHUNK):
                numbers = range(first, min(first + CHUNK, arguments["tasks"]))
                await noop.batch_defer_async(*({"number": number} for number in numbers))
            left = "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'"
            result = await timed_drain(arguments, lambda: work(stay=False), left=left)
        else:
            worker = asyncio.create_task(work(stay=True))
            result = await starts.measure(arguments, lambda number: noop.defer_async(number=number))
            worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await worker
    return {"peer": f"Procrastinate {version('procrastinate')}", **result}


if __name__ == "__main__":
    serve(measure)
