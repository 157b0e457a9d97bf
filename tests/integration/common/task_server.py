"""A task service in memory, behind a real server: what the other side of the wire does, on demand."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

import grpc
import grpc.aio
from frontrow.task.v1 import task_pb2, task_service_pb2, task_service_pb2_grpc

from libs.common.errors import DomainError, Kind
from libs.common.mounted import Mounted

PENDING = task_pb2.TASK_STATUS_PENDING
PROCESSING = task_pb2.TASK_STATUS_PROCESSING
COMPLETED = task_pb2.TASK_STATUS_COMPLETED
FAILED = task_pb2.TASK_STATUS_FAILED
CANCELLED = task_pb2.TASK_STATUS_CANCELLED

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[Any, Any]
    Servicer = object  # the stubs make every method abstract; those not needed here answer UNIMPLEMENTED
else:
    Context = grpc.aio.ServicerContext
    Servicer = task_service_pb2_grpc.TaskServiceServicer


class NotCancellable(DomainError):
    kind = Kind.FAILED_PRECONDITION
    reason = "TASK_NOT_CANCELLABLE"


class UnknownTask(DomainError):
    kind = Kind.NOT_FOUND
    reason = "TASK_NOT_FOUND"


class OtherContent(DomainError):
    kind = Kind.ALREADY_EXISTS
    reason = "REQUEST_ID_REUSED"


class MemoryTasks(Servicer):
    """Tasks by id; ``put`` changes one and tells the watchers."""

    def __init__(self) -> None:
        self.tasks: dict[str, task_pb2.Task] = {}
        self.batches: list[int] = []
        self.watches: list[task_service_pb2.WatchTasksRequest] = []
        self._watchers: set[asyncio.Queue[task_pb2.Task | None]] = set()
        self.accepts = asyncio.Event()
        self.accepts.set()

    def put(self, task: task_pb2.Task) -> None:
        self.tasks[task.id] = task
        for watcher in self._watchers:
            watcher.put_nowait(task)

    def end_watches(self) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(None)

    @property
    def watching(self) -> int:
        return len(self._watchers)

    def mounted(self) -> Mounted:
        async def close() -> None:
            return None

        servicer = cast("task_service_pb2_grpc.TaskServiceServicer", self)
        return Mounted(
            register=lambda server: task_service_pb2_grpc.add_TaskServiceServicer_to_server(servicer, server),
            service_names=("frontrow.task.v1.TaskService",),
            loops=(),
            close=close,
            on_stopping=self.end_watches,
        )

    async def CreateTask(
        self, request: task_service_pb2.CreateTaskRequest, context: Context
    ) -> task_service_pb2.CreateTaskResponse:
        known = self.tasks.get(request.task_id)
        if known is not None and known.subject != request.subject:
            raise OtherContent("this task_id was used for another task")
        if known is None:
            self.put(task_pb2.Task(id=request.task_id, subject=request.subject, status=PENDING))
        return task_service_pb2.CreateTaskResponse(task=self.tasks[request.task_id], created=known is None)

    async def BatchCreateTasks(
        self, request: task_service_pb2.BatchCreateTasksRequest, context: Context
    ) -> task_service_pb2.BatchCreateTasksResponse:
        for item in request.requests:
            known = self.tasks.get(item.task_id)
            if known is not None and known.subject != item.subject:
                raise OtherContent("a task_id was used for another task")
        for item, trace in zip(request.requests, request.trace_parents, strict=True):
            self.put(task_pb2.Task(id=item.task_id, subject=item.subject, status=PENDING, trace_parent=trace))
        made = [self.tasks[item.task_id] for item in request.requests]
        return task_service_pb2.BatchCreateTasksResponse(tasks=made)

    async def CancelTask(
        self, request: task_service_pb2.CancelTaskRequest, context: Context
    ) -> task_service_pb2.CancelTaskResponse:
        task = self.tasks.get(request.task_id)
        if task is None:
            raise UnknownTask("no such task")
        if task.status != PENDING:
            raise NotCancellable("the task has ended")
        self.put(task_pb2.Task(id=task.id, status=CANCELLED, version=task.version + 1))
        return task_service_pb2.CancelTaskResponse(task=self.tasks[task.id])

    async def BatchGetTasks(
        self, request: task_service_pb2.BatchGetTasksRequest, context: Context
    ) -> task_service_pb2.BatchGetTasksResponse:
        self.batches.append(len(request.task_ids))
        found = [self.tasks[task_id] for task_id in request.task_ids if task_id in self.tasks]
        return task_service_pb2.BatchGetTasksResponse(tasks=found)

    async def WatchTasks(
        self, request: task_service_pb2.WatchTasksRequest, context: Context
    ) -> AsyncIterator[task_service_pb2.WatchTasksResponse]:
        self.watches.append(request)
        await self.accepts.wait()
        changes: asyncio.Queue[task_pb2.Task | None] = asyncio.Queue()
        self._watchers.add(changes)
        try:
            await context.send_initial_metadata(())
            for task in list(self.tasks.values()):
                yield task_service_pb2.WatchTasksResponse(task=task)
            while (changed := await changes.get()) is not None:
                yield task_service_pb2.WatchTasksResponse(task=changed)
        finally:
            self._watchers.discard(changes)
