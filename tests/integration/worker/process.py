"""A worker as a process of its own, for tests that kill it.

`python -m tests.integration.worker.process ADDRESS TYPE` works with one slot. A task with payload
`{"block": true}` prints "started <attempt>" and waits for ever; others complete at once. SIGTERM stops it.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from frontrow.worker import Completed, Outcome, Run, Worker


async def handle(run: Run) -> Outcome:
    """Block or complete, as the payload says."""
    print(f"started {run.attempt}", flush=True)
    if run.payload.get("block"):
        await asyncio.Event().wait()
    return Completed({"by": "process"})


async def main() -> None:
    """Work until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    worker = Worker(target=sys.argv[1], types=[sys.argv[2]], handler=handle, concurrency=1)
    await worker.start()
    await stop.wait()
    await worker.stop(grace_seconds=2)
    print("stopped", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
