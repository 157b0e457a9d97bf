"""A real task server for the tests, and short words for what they say to it."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import uuid4

import grpc.aio
from frontrow.task.v1 import task_pb2, task_service_pb2_grpc, work_pb2
from frontrow.task.v1 import task_service_pb2 as pb
from google.protobuf import duration_pb2

from libs.common.client import connect
from libs.common.settings import (
    CommonSettings,
    DatabaseSettings,
    PeerSettings,
    StoreSettings,
    TelemetrySettings,
    TransportSettings,
)
from services.task.mount import mount
from services.task.settings import TaskSettings
from tests.conftest import Serve

CALL_SECONDS = 20.0


def common_settings(database_url: str) -> CommonSettings:
    """Return settings with everything beyond the database at its default."""
    return CommonSettings(
        database=DatabaseSettings(url=database_url),
        transport=TransportSettings(),
        peers=PeerSettings(),
        store=StoreSettings(),
        telemetry=TelemetrySettings(),
    )


async def serve_task(serve: Serve, database_url: str, **settings: Any) -> str:
    """Start a task server; return its address."""
    return await serve("task", await mount(TaskSettings(**settings), common_settings(database_url)))


def new_type() -> str:
    """Return a task type nobody else uses."""
    return f"t{uuid4().hex[:12]}"


def lasting(seconds: float) -> duration_pb2.Duration:
    """Return a duration."""
    made = duration_pb2.Duration()
    made.FromTimedelta(datetime.timedelta(seconds=seconds))
    return made


class Tasks:
    """Calls a task server in a few words. Close it at the end."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.channel: grpc.aio.Channel = connect(address)
        self.stub = task_service_pb2_grpc.TaskServiceStub(self.channel)

    async def create(self, task_type: str, **fields: Any) -> task_pb2.Task:
        """Create a task; return it."""
        request = pb.CreateTaskRequest(type=task_type, **fields)
        return (await self.stub.CreateTask(request, timeout=CALL_SECONDS)).task

    async def get(self, task_id: str) -> task_pb2.Task:
        """Return a task."""
        return (await self.stub.GetTask(pb.GetTaskRequest(task_id=task_id), timeout=CALL_SECONDS)).task

    async def claim(
        self, types: str | Sequence[str], count: int = 1, *, worker: str = "w1", wait: float = 0.0,
        finish: Iterable[work_pb2.FinishItem] = (),
    ) -> pb.ClaimTasksResponse:  # fmt: skip
        """Claim tasks."""
        request = pb.ClaimTasksRequest(
            worker_id=worker,
            types=[types] if isinstance(types, str) else types,
            max_tasks=count,
            wait=lasting(wait),
            finish=finish,
        )
        return await self.stub.ClaimTasks(request, timeout=wait + CALL_SECONDS)

    async def claim_one(self, task_type: str, *, worker: str = "w1") -> task_pb2.Task:
        """Claim exactly one task."""
        [task] = (await self.claim(task_type, worker=worker)).tasks
        return task

    async def finish(self, *items: work_pb2.FinishItem, worker: str = "w1") -> list[str]:
        """End runs; return the outcomes' short names."""
        request = pb.FinishTasksRequest(worker_id=worker, items=items)
        response = await self.stub.FinishTasks(request, timeout=CALL_SECONDS)
        return [outcome_name(result.outcome) for result in response.results]

    async def beat(
        self, *leases: tuple[task_pb2.Task, float | None], worker: str = "w1"
    ) -> list[work_pb2.LeaseResult]:
        """Beat for some runs, each with progress, to the hundredth, or None."""
        request = pb.HeartbeatRequest(worker_id=worker)
        for task, progress in leases:
            lease = request.leases.add(task_id=task.id, version=task.version)
            if progress is not None:
                lease.progress, lease.progress_hundredths = divmod(round(progress * 100), 100)
        return list((await self.stub.Heartbeat(request, timeout=CALL_SECONDS)).results)

    async def requeue(self, task_type: str, older_than: float) -> pb.RequeueStaleTasksResponse:
        """Take back silent runs."""
        request = pb.RequeueStaleTasksRequest(type=task_type, older_than=lasting(older_than))
        return await self.stub.RequeueStaleTasks(request, timeout=CALL_SECONDS)

    async def cancel(self, task_id: str) -> task_pb2.Task:
        """Cancel a task."""
        request = pb.CancelTaskRequest(task_id=task_id)
        return (await self.stub.CancelTask(request, timeout=CALL_SECONDS)).task

    async def retry(self, task_id: str) -> task_pb2.Task:
        """Retry a task."""
        return (await self.stub.RetryTask(pb.RetryTaskRequest(task_id=task_id), timeout=CALL_SECONDS)).task

    async def close(self) -> None:
        """Close the channel."""
        await self.channel.close()


def completed(task: task_pb2.Task, **fields: Any) -> work_pb2.FinishItem:
    """Return the item that completes a run."""
    return work_pb2.FinishItem(
        task_id=task.id, version=task.version, completed=work_pb2.RunCompleted(**fields)
    )


def failed(task: task_pb2.Task, message: str = "broken", *, retryable: bool = False) -> work_pb2.FinishItem:
    """Return the item that fails a run."""
    return work_pb2.FinishItem(
        task_id=task.id, version=task.version, failed=work_pb2.RunFailed(message=message, retryable=retryable)
    )


def released(task: task_pb2.Task, run_after: float | None = None) -> work_pb2.FinishItem:
    """Return the item that gives a task back."""
    pause = lasting(run_after) if run_after is not None else None
    return work_pb2.FinishItem(
        task_id=task.id, version=task.version, released=work_pb2.RunReleased(run_after=pause)
    )


def outcome_name(outcome: int) -> str:
    """Return the short name of a finish's outcome."""
    return work_pb2.FinishOutcome.Name(outcome).removeprefix("FINISH_OUTCOME_")


def lease_name(result: work_pb2.LeaseResult) -> str:
    """Return the short name of a lease's outcome."""
    return work_pb2.LeaseOutcome.Name(result.outcome).removeprefix("LEASE_OUTCOME_")


def status_name(task: task_pb2.Task) -> str:
    """Return the short name of a task's status."""
    return task_pb2.TaskStatus.Name(task.status).removeprefix("TASK_STATUS_")
