"""RPCs of operators: explain a task, set policies, look at queues and workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from frontrow.task.v1 import queue_pb2, task_service_pb2_grpc
from frontrow.task.v1 import task_service_pb2 as pb
from sqlalchemy import RowMapping, func, select

from libs.common.db import Database
from libs.common.errors import InvalidArgument
from libs.common.interceptors.call import ServicerContext
from libs.common.interceptors.context import current_actor
from libs.common.paging import within_budget
from services.task import explain, repository, repository_queue
from services.task.convert import seconds, task_message
from services.task.convert_queue import (
    HINDRANCES,
    policy_message,
    queue_message,
    run_message,
    worker_message,
)
from services.task.errors import TaskNotFound
from services.task.limits import TypeLimits

POLICY_FIELDS = ("paused", "concurrency_limit", "lease", "stall_limit", "max_attempts")
SHORTEST_LEASE_SECONDS = 1.0


class QueueServicer(task_service_pb2_grpc.TaskServiceServicer):
    """What operators ask for."""

    _database: Database
    _limits: TypeLimits
    _policy_changed: Callable[[], None]

    async def ExplainTask(
        self, request: pb.ExplainTaskRequest, context: ServicerContext
    ) -> pb.ExplainTaskResponse:
        """Say why a task isn't running, or what happened to it."""
        facts = await self._facts(UUID(request.task_id))
        if facts is None:
            raise TaskNotFound.of(request.task_id)
        runs = [run_message(run) for run in facts.runs]
        live = explain.live_run(facts.task)
        if live is not None:
            runs.append(run_message(live))
        return pb.ExplainTaskResponse(
            task=task_message(facts.task, self._limits, with_payload=False),
            summary=explain.summary(facts),
            hindrances=[
                queue_pb2.Hindrance(kind=HINDRANCES[item.kind], text=item.text)
                for item in explain.hindrances(facts)
            ],
            runs=runs,
            ahead=facts.ahead,
        )

    async def _facts(self, task_id: UUID) -> explain.Facts | None:
        async with self._database.begin() as session:
            task = await repository.get(session, task_id)
            if task is None:
                return None
            [queue] = await repository_queue.idle(session, [task["type"]])
            waits = task["status"] == "pending"
            return explain.Facts(
                task=task,
                runs=await repository_queue.runs(session, task_id),
                now=(await session.execute(select(func.now()))).scalar_one(),
                lease_seconds=self._limits.lease_seconds(task["type"]),
                paused=queue["paused"],
                concurrency_limit=queue["concurrency_limit"],
                running=queue["running"],
                ahead=await repository_queue.ahead(session, task) if waits else 0,
                workers=len(await repository_queue.live_workers(session, task["type"])),
            )

    async def SetQueuePolicy(
        self, request: pb.SetQueuePolicyRequest, context: ServicerContext
    ) -> pb.SetQueuePolicyResponse:
        """Store some fields of a type's policy."""
        values = _policy_values(request)
        async with self._database.begin() as session:
            policy = await repository_queue.set_policy(session, request.type, values, current_actor())
        self._policy_changed()
        return pb.SetQueuePolicyResponse(policy=policy_message(policy))

    async def ListQueues(
        self, request: pb.ListQueuesRequest, context: ServicerContext
    ) -> pb.ListQueuesResponse:
        """Return the queues with their counters."""
        async with self._database.begin() as session:
            rows = await repository_queue.queues(session, list(request.types))
        return pb.ListQueuesResponse(queues=[queue_message(row) for row in rows])

    async def ListWorkers(
        self, request: pb.ListWorkersRequest, context: ServicerContext
    ) -> pb.ListWorkersResponse:
        """Return the workers heard of lately with what they hold."""
        async with self._database.begin() as session:
            workers = await repository_queue.live_workers(session, request.type)
            held: dict[str, list[RowMapping]] = {}
            for lease in await repository_queue.leases(session, [row["worker_id"] for row in workers]):
                held.setdefault(lease["claimed_by"], []).append(lease)
        messages = (worker_message(row, held.get(row["worker_id"], []), self._limits) for row in workers)
        return pb.ListWorkersResponse(workers=within_budget(messages))


def _policy_values(request: pb.SetQueuePolicyRequest) -> dict[str, Any]:
    paths = list(request.update_mask.paths)
    unknown = sorted(set(paths) - set(POLICY_FIELDS))
    if unknown or not paths:
        said = f"names {', '.join(unknown)}" if unknown else "is empty"
        raise InvalidArgument.of_field("update_mask", f"{said}; it may name {', '.join(POLICY_FIELDS)}")
    policy = request.policy
    values: dict[str, Any] = {
        "paused": policy.paused,
        "concurrency_limit": policy.concurrency_limit,
        "lease": seconds(policy.lease),
        "stall_limit": seconds(policy.stall_limit),
        "max_attempts": policy.max_attempts,
    }
    if "lease" in paths and 0 < values["lease"] < SHORTEST_LEASE_SECONDS:
        raise InvalidArgument.of_field("policy.lease", "must be at least 1 second, or 0 for the default")
    columns = {"lease": "lease_seconds", "stall_limit": "stall_seconds"}
    return {columns.get(path, path): values[path] for path in paths}
