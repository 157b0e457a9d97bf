"""oban-py: one node with one queue. Needs Python 3.12."""

from __future__ import annotations

import asyncio
import sys
import types
from importlib.metadata import version
from typing import Any

from tests.bench.child import Arguments, serve
from tests.bench.pace import Starts, timed_drain

# It records results of jobs with erlpack, which has to be compiled. No job here has a result.
sys.modules.setdefault("erlpack", types.ModuleType("erlpack"))

from oban import Oban, worker  # noqa: E402
from oban.schema import install  # noqa: E402

CHUNK = 1000
DRAIN_SECONDS = 300.0
_starts = Starts()
_left = 0
_drained = asyncio.Event()


@worker(queue="bench")
class Noop:
    """The job that does nothing."""

    async def process(self, job: Any) -> None:
        """Note the start."""
        global _left  # noqa: PLW0603 - oban makes the instances itself
        _starts.began(job.args["number"])
        _left -= 1
        if _left == 0:
            _drained.set()


async def measure(arguments: Arguments) -> dict[str, Any]:
    """Drain jobs (`drain`) or start single ones (`latency`) with `concurrency` slots."""
    global _left  # noqa: PLW0603 - see above
    pool = await Oban.create_pool(dsn=arguments["url"], min_size=2, max_size=12)
    await install(pool)
    node = Oban(pool=pool, queues={"bench": arguments["concurrency"]})
    if arguments["operation"] == "drain":
        _left = arguments["tasks"]
        producer = Oban(pool=pool, name="producer")
        for first in range(0, arguments["tasks"], CHUNK):
            numbers = range(first, min(first + CHUNK, arguments["tasks"]))
            await producer.enqueue_many([Noop.new({"number": number}) for number in numbers])

        async def drain() -> None:
            await node.start()
            await asyncio.wait_for(_drained.wait(), DRAIN_SECONDS)
            await node.stop()  # sends the last acknowledgements

        left = "SELECT count(*) FROM oban_jobs WHERE state <> 'completed'"
        result = await timed_drain(arguments, drain, left=left)
    else:
        await node.start()
        result = await _starts.measure(arguments, lambda number: Noop.enqueue({"number": number}))
        await node.stop()
    await pool.close()
    return {"peer": f"oban-py {version('oban')}", **result}


if __name__ == "__main__":
    serve(measure)
