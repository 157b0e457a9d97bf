"""Short words for the calls that the clients here make."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

import asyncpg
from frontrow.task.v1 import task_pb2, task_service_pb2_grpc, work_pb2
from frontrow.task.v1 import task_service_pb2 as pb
from frontrow.worker import Dial

from libs.common.ids import uuid7

CALL_SECONDS = 30.0
LARGEST_BATCH = 100
CREATORS = 4


class Wire:
    """A connection to the task service."""

    def __init__(self, address: str) -> None:
        self._channel = Dial(address).aio()
        self.stub = task_service_pb2_grpc.TaskServiceStub(self._channel)

    async def __aenter__(self) -> Self:
        await self._channel.channel_ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def create_many(self, task_type: str, count: int) -> None:
        """Create tasks in batches, a few calls at a time."""
        sizes = iter([min(LARGEST_BATCH, count - done) for done in range(0, count, LARGEST_BATCH)])

        async def creator() -> None:
            for size in sizes:
                requests = [pb.CreateTaskRequest(task_id=str(uuid7()), type=task_type) for _ in range(size)]
                await self.stub.BatchCreateTasks(
                    pb.BatchCreateTasksRequest(requests=requests), timeout=CALL_SECONDS
                )

        await asyncio.gather(*(creator() for _ in range(CREATORS)))

    async def claim(
        self, worker: str, types: Sequence[str], count: int, *,
        wait_seconds: float = 0.0, finish: Iterable[work_pb2.FinishItem] = (),
    ) -> Sequence[task_pb2.Task]:  # fmt: skip
        """End runs and claim tasks; return these."""
        request = pb.ClaimTasksRequest(worker_id=worker, types=types, max_tasks=count, finish=finish)
        if wait_seconds:
            request.wait.FromTimedelta(datetime.timedelta(seconds=wait_seconds))
        response = await self.stub.ClaimTasks(request, timeout=wait_seconds + CALL_SECONDS)
        for result in response.finish_results:
            if result.outcome != work_pb2.FINISH_OUTCOME_APPLIED:
                raise RuntimeError(f"a finish was answered {work_pb2.FinishOutcome.Name(result.outcome)}")
        return response.tasks

    async def finish(self, worker: str, items: Iterable[work_pb2.FinishItem]) -> None:
        """End runs."""
        request = pb.FinishTasksRequest(worker_id=worker, items=items)
        response = await self.stub.FinishTasks(request, timeout=CALL_SECONDS)
        for result in response.results:
            if result.outcome != work_pb2.FINISH_OUTCOME_APPLIED:
                raise RuntimeError(f"a finish was answered {work_pb2.FinishOutcome.Name(result.outcome)}")


def completed(task: task_pb2.Task) -> work_pb2.FinishItem:
    """Return the item that completes a run."""
    return work_pb2.FinishItem(task_id=task.id, version=task.version, completed=work_pb2.RunCompleted())


async def settle(database_url: str) -> None:
    """Vacuum and analyse, as is done before every queue's measurement."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


async def noop(_task: task_pb2.Task) -> None:
    """Be the handler that does nothing."""
