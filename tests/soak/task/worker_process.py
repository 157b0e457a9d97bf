"""A worker of the storm, as a process: `python -m tests.soak.task.worker_process TARGET TYPE EFFECTS SLOTS`.

Each run writes a line when its handler begins and one when it ends, however it ends; only kill -9 leaves the
second out. A line is one append, so that processes don't mix theirs.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time

from frontrow.worker import Completed, Dial, Failed, Outcome, Released, Run, Worker


class Effects:
    """The log of what handlers did, shared by all workers."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, run: Run, what: str) -> None:
        """Append one line."""
        line = {"task": run.task_id, "version": run.version, "what": what, "at": time.time()}
        os.write(self._file, (json.dumps(line) + "\n").encode())


async def work(run: Run, effects: Effects) -> Outcome:
    """Take the time the payload says, then end as it says."""
    effects.note(run, "start")
    try:
        for step in range(4):
            await asyncio.sleep(run.payload["seconds"] / 4)
            run.progress(25 * step)
        return _outcome(run)
    finally:
        effects.note(run, "end")


def _outcome(run: Run) -> Outcome:
    plan = run.payload["plan"]
    if plan == "fail":
        return Failed("planned")
    if plan == "fail once" and run.attempt == 1:
        return Failed("planned, once", retryable=True)
    if plan == "release once" and run.version == 1:
        return Released(0.2)
    return Completed({"run": run.version})


async def main() -> None:
    """Work until killed, or until asked to end: then give back what a second isn't enough for."""
    target, kind, path, slots = sys.argv[1:]
    effects = Effects(path)
    worker = Worker(
        target=Dial(target, plaintext=True),
        types=[kind],
        handler=lambda run: work(run, effects),
        concurrency=int(slots),
        wait_seconds=5,
    )
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    await worker.start()
    await asked.wait()
    await worker.stop(grace_seconds=2)


if __name__ == "__main__":
    asyncio.run(main())
