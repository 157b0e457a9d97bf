"""Workers that are killed or told to stop from outside."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from frontrow.worker import Completed, Outcome, Run, Worker

from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.task.service import Tasks, new_type, serve_task, status_name

ROOT = Path(__file__).resolve().parents[3]


async def _start(address: str, kind: str) -> asyncio.subprocess.Process:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "libs" / "client")])}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integration.worker.process", address, kind,
        stdout=asyncio.subprocess.PIPE, cwd=ROOT, env=environment,
    )  # fmt: skip


async def _says(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 30)
    return line.decode().strip()


async def test_the_task_of_a_killed_worker_goes_back_after_its_lease_and_another_worker_does_it(
    serve: Serve, database_url: str
) -> None:
    tasks = Tasks(await serve_task(serve, database_url, lease_seconds=2, sweep_interval_seconds=0.2))
    kind = new_type()
    made = await tasks.create(kind, payload={"block": True})
    process = await _start(tasks.address, kind)
    assert await _says(process) == "started 1"
    process.kill()
    await process.wait()
    attempts: list[int] = []

    async def handle(run: Run) -> Outcome:
        attempts.append(run.attempt)
        return Completed()

    worker = Worker(target=tasks.address, types=[kind], handler=handle, concurrency=1)
    await worker.start()

    async def done() -> bool:
        return status_name(await tasks.get(made.id)) == "COMPLETED"

    await eventually(done, 20)
    await worker.stop()
    assert attempts == [2]
    await tasks.close()


async def test_a_worker_told_to_stop_gives_its_task_back_at_once_uncharged(
    serve: Serve, database_url: str
) -> None:
    tasks = Tasks(await serve_task(serve, database_url))
    kind = new_type()
    made = await tasks.create(kind, payload={"block": True})
    process = await _start(tasks.address, kind)
    assert await _says(process) == "started 1"
    process.send_signal(signal.SIGTERM)
    assert await _says(process) == "stopped"
    assert await process.wait() == 0
    task = await tasks.get(made.id)
    assert (status_name(task), task.attempt, task.status_reason) == ("PENDING", 0, "RELEASED")
    await tasks.close()
