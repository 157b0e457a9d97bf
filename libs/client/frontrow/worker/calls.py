"""The calls a worker makes from its event loop: claim, finish, both at once."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import grpc
from frontrow.task.v1 import task_service_pb2, task_service_pb2_grpc, work_pb2

if TYPE_CHECKING:
    Claim: TypeAlias = grpc.aio.UnaryUnaryCall[
        task_service_pb2.ClaimTasksRequest, task_service_pb2.ClaimTasksResponse
    ]

_log = logging.getLogger(__name__)

CALL_SECONDS = 15.0
LARGEST_BATCH = 100


class Calls:
    """The task service, seen by one worker."""

    def __init__(
        self, stub: task_service_pb2_grpc.TaskServiceAsyncStub, *, worker_id: str, types: Sequence[str]
    ) -> None:
        self._stub = stub
        self._worker_id = worker_id
        self._types = list(types)

    def claim(self, count: int, *, wait_seconds: float) -> Claim:
        """Claim up to `count` tasks, waiting for a first one. Returns the call, to await or to cancel."""
        request = task_service_pb2.ClaimTasksRequest(
            worker_id=self._worker_id, types=self._types, max_tasks=min(count, LARGEST_BATCH)
        )
        request.wait.FromTimedelta(datetime.timedelta(seconds=wait_seconds))
        return self._stub.ClaimTasks(request, timeout=wait_seconds + CALL_SECONDS)

    async def finish_and_claim(
        self, items: Sequence[work_pb2.FinishItem], count: int
    ) -> task_service_pb2.ClaimTasksResponse:
        """End runs and claim up to `count` others in one round trip."""
        request = task_service_pb2.ClaimTasksRequest(
            worker_id=self._worker_id,
            types=self._types if count else [],
            max_tasks=min(count, LARGEST_BATCH),
            finish=items,
        )
        return await self._stub.ClaimTasks(request, timeout=CALL_SECONDS)

    async def finish_one(self, item: work_pb2.FinishItem) -> None:
        """End one run by itself; what the server refuses to store is ended as a failure that says so.

        Raises:
            grpc.aio.AioRpcError: the server is out of reach, or refused even that.
        """
        try:
            await self._finish(item)
        except grpc.aio.AioRpcError as error:
            if error.code() != grpc.StatusCode.INVALID_ARGUMENT:
                raise
            _log.warning("worker.result_refused task_id=%s: %s", item.task_id, error.details())
            refused = work_pb2.FinishItem(task_id=item.task_id, version=item.version)
            refused.failed.message = f"the result could not be stored: {error.details()}"
            await self._finish(refused)

    async def _finish(self, item: work_pb2.FinishItem) -> None:
        request = task_service_pb2.FinishTasksRequest(worker_id=self._worker_id, items=[item])
        await self._stub.FinishTasks(request, timeout=CALL_SECONDS)
