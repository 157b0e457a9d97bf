"""RPCs of operators: explain a task, set policies, look at queues and workers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from frontrow.task.v1 import queue_pb2, task_service_pb2_grpc
from frontrow.task.v1 import task_service_pb2 as pb
from sqlalchemy import func, select

from libs.common.db import Database
from libs.common.errors import InvalidArgument
from libs.common.interceptors.call import ServicerContext
from libs.common.interceptors.context import current_actor
from libs.common.paging import decode_token, encode_token, page_size, within_budget
from services.task import explain, policies, repository, repository_queue
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
from services.task.repository_queue import MOST_LEASES

POLICY_FIELDS = ("paused", "concurrency_limit", "lease", "stall_limit", "max_attempts")
SHORTEST_LIMIT_SECONDS = 1.0


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
            earlier_runs=facts.earlier_runs,
        )

    async def _facts(self, task_id: UUID) -> explain.Facts | None:
        async with self._database.begin() as session:
            task = await repository.get(session, task_id)
            if task is None:
                return None
            [queue] = await repository_queue.idle(session, [task["type"]])
            waits = task["status"] == "pending"
            runs, earlier_runs = await repository_queue.runs(session, task_id)
            return explain.Facts(
                task=task,
                runs=runs,
                earlier_runs=earlier_runs,
                now=(await session.execute(select(func.now()))).scalar_one(),
                lease_seconds=self._limits.lost_after_seconds(task["type"]),
                paused=queue["paused"],
                concurrency_limit=queue["concurrency_limit"],
                running=queue["running"],
                ahead=await repository_queue.ahead(session, task) if waits else 0,
                workers=await repository_queue.count_live_workers(session, task["type"]),
            )

    async def SetQueuePolicy(
        self, request: pb.SetQueuePolicyRequest, context: ServicerContext
    ) -> pb.SetQueuePolicyResponse:
        """Store some fields of a type's policy."""
        values = _policy_values(request)
        usual = self._limits.usual_lease_seconds(request.type)
        policy = await policies.set_policy(
            self._database, request.type, values, current_actor(), usual_lease_seconds=usual
        )
        self._policy_changed()
        return pb.SetQueuePolicyResponse(policy=policy_message(policy))

    async def ListQueues(
        self, request: pb.ListQueuesRequest, context: ServicerContext
    ) -> pb.ListQueuesResponse:
        """Return a page of queues with their counters, by type."""
        limit = page_size(request.page_size)
        [after] = decode_token(request.page_token, request, str) or [""]
        async with self._database.begin() as session:
            rows = await repository_queue.queues(session, list(request.types), after=after, limit=limit + 1)
        queues = within_budget(queue_message(row) for row in rows[:limit])
        token = encode_token([queues[-1].type], request) if len(rows) > len(queues) else ""
        return pb.ListQueuesResponse(queues=queues, next_page_token=token)

    async def ListWorkers(
        self, request: pb.ListWorkersRequest, context: ServicerContext
    ) -> pb.ListWorkersResponse:
        """Return a page of the workers heard of lately with what they hold."""
        limit = page_size(request.page_size)
        after = decode_token(request.page_token, request, datetime, str)
        async with self._database.begin() as session:
            rows = await repository_queue.live_workers(session, request.type, after=after, limit=limit + 1)
            held = await repository_queue.leases(session, [row["worker_id"] for row in rows])
        workers = within_budget(
            worker_message(row, held.get(row["worker_id"], [])[:MOST_LEASES], self._limits)
            for row in rows[:limit]
        )
        token = ""
        if len(rows) > len(workers):
            last = rows[len(workers) - 1]
            token = encode_token([last["first_seen_at"], last["worker_id"]], request)
        return pb.ListWorkersResponse(workers=workers, next_page_token=token)


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
    for name in {"lease", "stall_limit"}.intersection(paths):
        if 0 < values[name] < SHORTEST_LIMIT_SECONDS:
            raise InvalidArgument.of_field(
                f"policy.{name}", "must be at least 1 second, or 0 for the default"
            )
    columns = {"lease": "lease_seconds", "stall_limit": "stall_seconds"}
    return {columns.get(path, path): values[path] for path in paths}
