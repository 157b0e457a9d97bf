"""Speak to the task service from another context: create and cancel by the outbox, look, watch."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import NamedTuple

import grpc.aio
from frontrow.task.v1 import task_pb2, task_service_pb2, task_service_pb2_grpc

from libs.common.client import reading, reason_of

# BatchGetTasks takes 500, but one answer has room for so many, whatever their texts.
_BATCH = 100
_CALL_SECONDS = 10.0

_STATUSES = {
    task_pb2.TASK_STATUS_PENDING: "pending",
    task_pb2.TASK_STATUS_PROCESSING: "processing",
    task_pb2.TASK_STATUS_COMPLETED: "completed",
    task_pb2.TASK_STATUS_FAILED: "failed",
    task_pb2.TASK_STATUS_CANCELLED: "cancelled",
}


class TaskView(NamedTuple):
    """What a context needs to know about a task that it follows."""

    task_id: str
    version: int
    """The fencing token: it rises at every change of status."""
    status: str
    """``pending``, ``processing``, ``completed``, ``failed``, ``cancelled``; empty for one not known here."""
    error_message: str
    """What went wrong in the last failed run; empty when nothing did."""
    status_reason: str = ""
    """Why the status is what it is, e.g. ``ABANDONED``; empty when there is nothing to add."""


class TaskPeer:
    """Typed calls to the task service over one channel, which the caller owns and closes."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """Use ``channel``, as ``libs.common.client.connect`` makes it."""
        self._stub = task_service_pb2_grpc.TaskServiceStub(channel)

    async def create_sender(self, body: bytes) -> None:
        """Send an outbox row that holds a serialised ``CreateTaskRequest`` with its ``task_id``.

        Repeating it is harmless: the task service answers a known id with the first task.
        """
        request = task_service_pb2.CreateTaskRequest.FromString(body)
        await self._stub.CreateTask(request, timeout=_CALL_SECONDS)

    async def create_together(self, orders: Sequence[tuple[bytes, str]]) -> None:
        """Send up to 100 such rows by one call, all or none; each is its request and its trace."""
        request = task_service_pb2.BatchCreateTasksRequest(trace_parents=[trace for _, trace in orders])
        for body, _ in orders:
            request.requests.add().MergeFromString(body)
        await self._stub.BatchCreateTasks(request, timeout=_CALL_SECONDS)

    async def cancel_sender(self, body: bytes) -> None:
        """Send an outbox row that holds a serialised ``CancelTaskRequest``.

        A task that has ended, or was never made, needs no cancelling: that is success.
        """
        request = task_service_pb2.CancelTaskRequest.FromString(body)
        try:
            await self._stub.CancelTask(request, timeout=_CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            ended = error.code() == grpc.StatusCode.NOT_FOUND or reason_of(error) == "TASK_NOT_CANCELLABLE"
            if not ended:
                raise

    async def statuses(self, task_ids: Sequence[str]) -> list[TaskView]:
        """Return the present state of the tasks that exist, in no order; asks for 100 at a time."""
        views: list[TaskView] = []
        for start in range(0, len(task_ids), _BATCH):
            request = task_service_pb2.BatchGetTasksRequest(task_ids=task_ids[start : start + _BATCH])
            response = await self._stub.BatchGetTasks(request, timeout=_CALL_SECONDS)
            views.extend(map(_view, response.tasks))
        return views

    async def watch(
        self,
        task_ids: Sequence[str] = (),
        *,
        types: Sequence[str] = (),
        min_version: int = 0,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[TaskView, None]:
        """Yield tasks as they are and as they change, until the server ends the stream.

        At most 500 ids; no ids and no types mean every task, ``min_version`` 1 those that something has
        happened to. ``on_open`` hears that the server has taken the call: what changes from then on is told.
        Close the iterator (``aclosing``) to end the call. Raises ``grpc.aio.AioRpcError`` when the stream
        breaks.
        """
        request = task_service_pb2.WatchTasksRequest(task_ids=task_ids, types=types, min_version=min_version)
        call = self._stub.WatchTasks(request)
        async with reading(call) as responses:
            await call.initial_metadata()
            if on_open is not None:
                on_open()
            async for response in responses:
                yield _view(response.task)


def _view(task: task_pb2.Task) -> TaskView:
    return TaskView(
        task.id, task.version, _STATUSES.get(task.status, ""), task.error_message, task.status_reason
    )
