"""RPCs of creators and people: create, look, list, cancel, retry, watch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from uuid import UUID

from frontrow.task.v1 import task_service_pb2 as pb
from frontrow.task.v1 import task_service_pb2_grpc

from libs.common.db import Database
from libs.common.errors import FieldViolation, InvalidArgument
from libs.common.interceptors.call import ServicerContext
from libs.common.paging import decode_token, encode_token, page_size, within_budget
from services.task import repository, repository_queue
from services.task.convert import STATUS_NAMES, moment, new_task, task_message
from services.task.creations import CreateDesk
from services.task.errors import TaskNotCancellable, TaskNotFound, TaskNotRetryable
from services.task.limits import TypeLimits
from services.task.repository import TaskFilter
from services.task.signals import Signals
from services.task.states import Status
from services.task.watch import WatchHub


class PeopleServicer(task_service_pb2_grpc.TaskServiceServicer):
    """What creators and people ask for."""

    _database: Database
    _limits: TypeLimits
    _creations: CreateDesk
    _watches: WatchHub
    _signals: Signals

    async def CreateTask(
        self, request: pb.CreateTaskRequest, context: ServicerContext
    ) -> pb.CreateTaskResponse:
        """Add a task once (domain.md 1.13)."""
        created = await self._creations.create(new_task(request, self._limits))
        task = task_message(created.row, self._limits, with_payload=True)
        return pb.CreateTaskResponse(task=task, created=created.new)

    async def BatchCreateTasks(
        self, request: pb.BatchCreateTasksRequest, context: ServicerContext
    ) -> pb.BatchCreateTasksResponse:
        """Add tasks, all or none."""
        violations = [
            FieldViolation(f"requests[{index}]", "needs a task_id or a request_id of its own")
            for index, item in enumerate(request.requests)
            if not item.task_id and not item.request_id
        ]
        if violations:
            raise InvalidArgument(
                "every request of a batch needs a task_id or request_id", violations=violations
            )
        traces: Sequence[str | None] = request.trace_parents or [None] * len(request.requests)
        if len(traces) != len(request.requests):
            raise InvalidArgument.of_field("trace_parents", "one for each request, or none at all")
        tasks = [
            new_task(item, self._limits, path=f"requests[{index}].", trace_parent=trace)
            for index, (item, trace) in enumerate(zip(request.requests, traces, strict=True))
        ]
        created = await self._creations.create_all(tasks)
        return pb.BatchCreateTasksResponse(
            tasks=[task_message(answer.row, self._limits, with_payload=False) for answer in created]
        )

    async def GetTask(self, request: pb.GetTaskRequest, context: ServicerContext) -> pb.GetTaskResponse:
        """Return a task with its payload."""
        async with self._database.begin() as session:
            row = await repository.get(session, UUID(request.task_id))
        if row is None:
            raise TaskNotFound.of(request.task_id)
        return pb.GetTaskResponse(task=task_message(row, self._limits, with_payload=True))

    async def BatchGetTasks(
        self, request: pb.BatchGetTasksRequest, context: ServicerContext
    ) -> pb.BatchGetTasksResponse:
        """Return those of the tasks that exist, as many as one answer holds."""
        ids = list(dict.fromkeys(UUID(task_id) for task_id in request.task_ids))
        async with self._database.begin() as session:
            rows = await repository.get_many(session, ids)
        found = [key for key in ids if key in rows]
        tasks = within_budget(task_message(rows[key], self._limits, with_payload=False) for key in found)
        behind = ids.index(found[len(tasks)]) if len(found) > len(tasks) else len(ids)
        return pb.BatchGetTasksResponse(tasks=tasks, remaining_task_ids=map(str, ids[behind:]))

    async def ListTasks(self, request: pb.ListTasksRequest, context: ServicerContext) -> pb.ListTasksResponse:
        """Return a page of tasks, newest first."""
        limit = page_size(request.page_size)
        after = _position(request)
        async with self._database.begin() as session:
            rows = await repository.page(session, _filter(request), after=after, limit=limit + 1)
        tasks = within_budget(task_message(row, self._limits, with_payload=False) for row in rows[:limit])
        token = ""
        if len(rows) > len(tasks):
            last = rows[len(tasks) - 1]
            token = encode_token([last["created_at"], last["id"]], request)
        return pb.ListTasksResponse(tasks=tasks, next_page_token=token)

    async def CancelTask(
        self, request: pb.CancelTaskRequest, context: ServicerContext
    ) -> pb.CancelTaskResponse:
        """Cancel a pending task, ask a running one to stop (domain.md 1.10)."""
        task_id = UUID(request.task_id)
        async with self._database.begin() as session:
            row = await repository.request_cancel(session, task_id)
            if row is not None and row["status"] == Status.CANCELLED:
                await repository_queue.add_deltas(session, row["type"], pending=-1, cancelled=1, ended=1)
            present = row or await repository.get(session, task_id)
        if present is None:
            raise TaskNotFound.of(request.task_id)
        if row is None:
            raise TaskNotCancellable.of(request.task_id, present["status"])
        self._signals.tell([task_id], {})
        return pb.CancelTaskResponse(task=task_message(row, self._limits, with_payload=False))

    async def RetryTask(self, request: pb.RetryTaskRequest, context: ServicerContext) -> pb.RetryTaskResponse:
        """Put a failed or cancelled task back (domain.md 1.9)."""
        task_id = UUID(request.task_id)
        async with self._database.begin() as session:
            before = await repository.lock(session, task_id)
            row = await repository.retry(session, task_id)
            if row is not None and before is not None:
                levels = {before: -1, "pending": 1, "created": 1}
                await repository_queue.add_deltas(session, row["type"], **levels)
            present = row or await repository.get(session, task_id)
        if present is None:
            raise TaskNotFound.of(request.task_id)
        if row is None:
            raise TaskNotRetryable.of(request.task_id, present["status"])
        self._signals.tell([task_id], {row["type"]: 1})
        return pb.RetryTaskResponse(task=task_message(row, self._limits, with_payload=False))

    async def WatchTasks(
        self, request: pb.WatchTasksRequest, context: ServicerContext
    ) -> AsyncIterator[pb.WatchTasksResponse]:
        """Follow tasks by level."""

        async def on_added() -> None:
            # At once: a reader of a quiet queue would otherwise not know that it is heard.
            await context.send_initial_metadata(())

        wanted = _filter(request)
        async for row in self._watches.watch(wanted, min_version=request.min_version, on_added=on_added):
            yield pb.WatchTasksResponse(task=task_message(row, self._limits, with_payload=False))


def _filter(request: pb.ListTasksRequest | pb.WatchTasksRequest) -> TaskFilter:
    ids = request.task_ids if isinstance(request, pb.WatchTasksRequest) else ()
    after = before = None
    if request.HasField("created_after"):
        after = moment(request.created_after, "created_after")
    if request.HasField("created_before"):
        before = moment(request.created_before, "created_before")
    return TaskFilter(
        types=list(request.types),
        statuses=[STATUS_NAMES[status] for status in request.statuses],
        keyword_text=request.keywords,
        subject=request.subject,
        created_after=after,
        created_before=before,
        task_ids=[UUID(task_id) for task_id in ids],
    )


def _position(request: pb.ListTasksRequest) -> tuple[datetime, UUID] | None:
    return decode_token(request.page_token, request, datetime, UUID)
