"""Policies, limits, counters, workers: a queue as its operators see it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import grpc.aio
import pytest
from frontrow.task.v1 import queue_pb2, work_pb2
from frontrow.task.v1 import task_service_pb2 as pb
from sqlalchemy import func, select

from libs.common.client import error_info
from libs.common.db import Database
from libs.common.testing import eventually
from services.task.models import queue_deltas
from services.task.models import tasks as task_rows
from tests.conftest import Serve
from tests.integration.task.service import (
    Tasks,
    completed,
    failed,
    lasting,
    new_type,
    released,
    serve_task,
    status_name,
)


async def set_policy(tasks: Tasks, kind: str, **fields: Any) -> queue_pb2.QueuePolicy:
    """Set some fields of a type's policy."""
    request = pb.SetQueuePolicyRequest(type=kind, policy=queue_pb2.QueuePolicy(**fields))
    request.update_mask.paths.extend(fields)
    return (await tasks.stub.SetQueuePolicy(request, timeout=20)).policy


async def queue_of(tasks: Tasks, kind: str) -> queue_pb2.Queue:
    """Return one queue."""
    [queue] = (await tasks.stub.ListQueues(pb.ListQueuesRequest(types=[kind]), timeout=20)).queues
    return queue


async def test_a_paused_type_hands_out_nothing_and_goes_on_at_once_when_resumed(
    serve: Serve, database_url: str, tasks: Tasks
) -> None:
    kind = new_type()
    other = Tasks(await serve_task(serve, database_url))
    made = await tasks.create(kind)
    await set_policy(tasks, kind, paused=True)
    for server in (tasks, other):
        answer = await server.claim(kind, wait=0.2)
        assert (len(answer.tasks), answer.idle_reason) == (0, work_pb2.IDLE_REASON_PAUSED)
    waiting = asyncio.ensure_future(other.claim(kind, wait=30))
    await asyncio.wait({waiting}, timeout=0.3)
    await set_policy(tasks, kind, paused=False)
    assert [task.id for task in (await waiting).tasks] == [made.id]
    await other.close()


async def test_a_limit_holds_over_all_servers_and_the_end_of_a_run_lets_the_next_in(
    serve: Serve, database_url: str, tasks: Tasks
) -> None:
    kind = new_type()
    other = Tasks(await serve_task(serve, database_url))
    for _ in range(6):
        await tasks.create(kind)
    first = (await tasks.claim(kind, 1)).tasks[0]
    # The run that has begun before the limit was set is counted.
    await set_policy(tasks, kind, concurrency_limit=2)
    [second] = (await other.claim(kind, 10)).tasks
    assert (await tasks.claim(kind, 10)).idle_reason == work_pb2.IDLE_REASON_LIMIT
    waiting = asyncio.ensure_future(other.claim(kind, 10, wait=30))
    await asyncio.wait({waiting}, timeout=0.3)
    await tasks.finish(completed(first))
    [third] = (await waiting).tasks
    assert len((await tasks.claim(kind, 10, finish=[completed(second), failed(third)])).tasks) == 2
    await set_policy(tasks, kind, concurrency_limit=0)
    assert len((await other.claim(kind, 10)).tasks) == 1
    await other.close()


async def test_a_limit_is_never_exceeded_in_random_races_over_three_servers(
    serve: Serve, database_url: str, database: Database, tasks: Tasks
) -> None:
    kind, limit = new_type(), 3
    servers = [tasks, *[Tasks(await serve_task(serve, database_url)) for _ in range(2)]]
    await set_policy(tasks, kind, concurrency_limit=limit)
    chance = random.Random(7)
    held: list[Any] = []
    done = 0
    over = asyncio.Event()

    async def race(number: int) -> None:
        nonlocal done
        for _ in range(25):
            server = chance.choice(servers)
            if held and chance.random() < 0.5:
                await server.finish(chance.choice(_ends_of(held.pop())))
                done += 1
            else:
                held.extend((await server.claim(kind, chance.randint(1, 4), worker=f"w{number}")).tasks)

    await _create_many(tasks, kind)
    looking = asyncio.ensure_future(_look_until(over, database, kind))
    await asyncio.gather(*(race(number) for number in range(12)))
    over.set()
    seen = await looking
    assert done > 50
    assert len(seen) > 20
    assert max(seen) == limit
    running = (await queue_of(tasks, kind)).processing
    assert running == len(held) <= limit
    for run in held:
        await tasks.finish(completed(run))
    assert len((await tasks.claim(kind, 50)).tasks) == limit
    for server in servers[1:]:
        await server.close()


def _ends_of(run: Any) -> list[Any]:
    return [completed(run), failed(run), released(run), failed(run, retryable=True)]


async def _create_many(tasks: Tasks, kind: str) -> None:
    """Create 400 tasks of a type."""
    for index in range(4):
        new = [pb.CreateTaskRequest(type=kind, request_id=f"{kind}{index}{n}") for n in range(100)]
        await tasks.stub.BatchCreateTasks(pb.BatchCreateTasksRequest(requests=new), timeout=20)


async def _look_until(over: asyncio.Event, database: Database, kind: str) -> list[int]:
    """Return how many ran at each look."""
    seen = []
    while not over.is_set():
        seen.append(await _processing(database, kind))
    return seen


async def _processing(database: Database, kind: str) -> int:
    """Count the running tasks of a type, as one look at the table sees them."""
    query = select(func.count()).where(task_rows.c.type == kind, task_rows.c.status == "processing")
    async with database.begin() as session:
        return (await session.execute(query)).scalar_one()


async def test_a_policy_sets_lease_stall_limit_and_attempts_of_its_type_on_every_server(
    serve: Serve, database_url: str, tasks: Tasks
) -> None:
    kind = new_type()
    other = Tasks(await serve_task(serve, database_url))
    policy = await set_policy(tasks, kind, lease=lasting(9), max_attempts=2)
    assert (policy.lease.seconds, policy.max_attempts, policy.HasField("stall_limit")) == (9, 2, False)

    async def known() -> bool:
        for server in (tasks, other):
            made = await server.create(kind)
            response = await server.claim(kind)
            [run] = response.tasks
            await server.finish(completed(run))
            lease = run.lease_expire_time.ToNanoseconds() - run.start_time.ToNanoseconds()
            if (made.max_attempts, lease, response.beat_interval.seconds) != (2, 9_000_000_000, 3):
                return False
        return True

    await eventually(known)
    policy = await set_policy(other, kind, stall_limit=lasting(60))
    assert (policy.lease.seconds, policy.stall_limit.seconds, policy.max_attempts) == (9, 60, 2)
    await other.close()


@pytest.mark.parametrize(
    ("fields", "paths", "field"),
    [
        ({"paused": True}, [], "update_mask"),
        ({"paused": True}, ["type"], "update_mask"),
        ({"concurrency_limit": -1}, ["concurrency_limit"], "policy.concurrency_limit"),
        ({"lease": lasting(0.5)}, ["lease"], "policy.lease"),
        ({"stall_limit": lasting(0.000001)}, ["stall_limit"], "policy.stall_limit"),
        ({"max_attempts": 101}, ["max_attempts"], "policy.max_attempts"),
    ],
)
async def test_a_policy_out_of_bounds_is_refused_by_field(
    tasks: Tasks, fields: dict[str, Any], paths: list[str], field: str
) -> None:
    request = pb.SetQueuePolicyRequest(type=new_type(), policy=queue_pb2.QueuePolicy(**fields))
    request.update_mask.paths.extend(paths)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await tasks.stub.SetQueuePolicy(request, timeout=20)
    info = error_info(caught.value)
    assert (info.code, info.violations[0].field) == (grpc.StatusCode.INVALID_ARGUMENT, field)


async def test_counters_agree_with_the_tasks_after_every_kind_of_change(
    tasks: Tasks, database: Database
) -> None:
    kind = new_type()
    made = [(await tasks.create(kind, max_attempts=1)).id for _ in range(10)]
    runs = list((await tasks.claim(kind, 6)).tasks)
    await tasks.finish(
        completed(runs[0]), failed(runs[1]), released(runs[2]), failed(runs[3], retryable=True)
    )
    await tasks.cancel(runs[4].id)
    await tasks.finish(completed(runs[4]))
    await tasks.cancel(made[9])
    await tasks.retry(runs[1].id)
    await tasks.retry(made[9])
    await tasks.cancel(made[8])
    await eventually(lambda: _abandoned(tasks, kind))

    counted: dict[str, int] = {}
    for task_id in made:
        status = status_name(await tasks.get(task_id)).lower()
        counted[status] = counted.get(status, 0) + 1
    for _ in range(2):
        queue = await queue_of(tasks, kind)
        assert {name: getattr(queue, name) for name in counted} == counted
        assert queue.pending + queue.processing + queue.completed + queue.failed + queue.cancelled == 10
        await eventually(lambda: _folded(database, kind))
    assert queue.created_per_minute == pytest.approx(1.2)
    assert queue.ended_per_minute == pytest.approx(0.7)
    assert queue.HasField("oldest_pending_age")


async def _abandoned(tasks: Tasks, kind: str) -> bool:
    return (await tasks.requeue(kind, 0.05)).abandoned == 1


async def _folded(database: Database, kind: str) -> bool:
    async with database.begin() as session:
        query = select(func.count()).select_from(queue_deltas).where(queue_deltas.c.type == kind)
        return (await session.execute(query)).scalar_one() == 0


async def test_an_empty_queue_is_listed_with_its_policy(tasks: Tasks) -> None:
    kind = new_type()
    await set_policy(tasks, kind, concurrency_limit=4)
    queue = await queue_of(tasks, kind)
    assert (queue.policy.concurrency_limit, queue.pending, queue.HasField("oldest_pending_time")) == (
        4,
        0,
        False,
    )
    every = await tasks.stub.ListQueues(pb.ListQueuesRequest(page_size=1_000), timeout=20)
    types = [item.type for item in every.queues]
    assert kind in types
    assert types == sorted(types)


async def test_workers_are_listed_with_their_types_and_the_runs_they_hold(tasks: Tasks) -> None:
    kind, worker = new_type(), f"worker-{new_type()}"
    await tasks.create(kind)
    [run] = (await tasks.claim([kind, "zzz"], worker=worker)).tasks
    await tasks.beat((run, 30), worker=worker)

    async def listed() -> list[queue_pb2.WorkerInfo]:
        response = await tasks.stub.ListWorkers(pb.ListWorkersRequest(type=kind), timeout=20)
        return list(response.workers)

    [info] = await eventually(listed)
    assert (info.worker_id, sorted(info.types)) == (worker, sorted([kind, "zzz"]))
    [lease] = info.leases
    assert (lease.task_id, lease.version, lease.progress, lease.type) == (run.id, 1, 30, kind)
    assert (await queue_of(tasks, kind)).workers == 1


async def test_a_type_that_never_had_a_task_is_listed_as_long_as_a_policy_of_it_holds(tasks: Tasks) -> None:
    kind = new_type()
    listed = pb.ListQueuesRequest(types=[kind])
    await set_policy(tasks, kind, paused=True, max_attempts=2)
    assert (await queue_of(tasks, kind)).policy.paused
    await set_policy(tasks, kind, paused=False)
    assert (await queue_of(tasks, kind)).policy.max_attempts == 2
    await set_policy(tasks, kind, max_attempts=0)
    assert list((await tasks.stub.ListQueues(listed, timeout=20)).queues) == []
    await tasks.create(kind)
    assert (await queue_of(tasks, kind)).pending == 1
