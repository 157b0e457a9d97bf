"""A worker inside a test, and patience for its tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from frontrow.worker import Outcome, Run, Worker

from libs.common.testing import eventually
from tests.integration.task.service import Tasks, status_name

Handler = Callable[[Run], Awaitable[Outcome]]


@asynccontextmanager
async def working(address: str, kind: str, handler: Handler, **options: Any) -> AsyncIterator[Worker]:
    """Run a worker inside the block."""
    worker = Worker(target=address, types=[kind], handler=handler, **({"concurrency": 4} | options))
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop(grace_seconds=2)


async def reaches(tasks: Tasks, task_id: str, wanted: str, timeout_seconds: float = 15) -> None:
    async def reached() -> bool:
        return status_name(await tasks.get(task_id)) == wanted

    await eventually(reached, timeout_seconds)
