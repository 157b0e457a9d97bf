"""A task that somebody waits for begins with its creation, and all is as after a claim."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from frontrow.task.v1 import task_service_pb2 as pb
from google.protobuf import timestamp_pb2
from grpc.aio import AioRpcError
from sqlalchemy import text

from libs.common.db import Database
from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.task.service import (
    Tasks,
    completed,
    new_type,
    released,
    serve_task,
    status_name,
)


async def _waiting(tasks: Tasks, task_type: str, *workers: str) -> list[asyncio.Task[Any]]:
    """Let workers wait who have looked and found nothing."""
    calls = [asyncio.create_task(tasks.claim(task_type, wait=20.0, worker=worker)) for worker in workers]
    # Time for the first looks: no sign of them is to be had from outside.
    await tasks.claim(task_type, wait=0.3, worker="quiet")
    return calls


@pytest.fixture
async def tasks(serve: Serve, database_url: str) -> Any:
    """Give a client of a server that polls so rarely that only signals count."""
    client = Tasks(await serve_task(serve, database_url, poll_seconds=600))
    yield client
    await client.close()


async def test_a_task_that_somebody_waits_for_begins_at_once(tasks: Tasks) -> None:
    task_type = new_type()
    [call] = await _waiting(tasks, task_type, "w1")
    made = await tasks.create(task_type, subject="s", live_material_name="n")
    assert status_name(made) == "PROCESSING"
    [task] = (await call).tasks
    assert (task.id, task.version, task.attempt, task.claimed_by) == (made.id, 1, 1, "w1")
    assert task.subject == "s"
    assert task.lease_expire_time.seconds > task.start_time.seconds
    stored = await tasks.get(task.id)
    assert stored.start_time == stored.heartbeat_time == stored.progress_time == stored.create_time
    assert await tasks.finish(completed(task)) == ["APPLIED"]
    assert status_name(await tasks.get(task.id)) == "COMPLETED"
    [queue] = (await tasks.stub.ListQueues(pb.ListQueuesRequest(types=[task_type]), timeout=10)).queues
    assert (queue.pending, queue.processing, queue.completed) == (0, 0, 1)


async def test_each_task_goes_to_one_worker_and_what_is_left_waits(tasks: Tasks) -> None:
    task_type = new_type()
    calls = await _waiting(tasks, task_type, "w1", "w2", "w3")
    made = await asyncio.gather(*(tasks.create(task_type) for _ in range(5)))
    claimed = [task for call in calls for task in (await call).tasks]
    assert len({task.id for task in claimed}) == 3
    rest = (await tasks.claim(task_type, 10)).tasks
    assert {task.id for task in (*claimed, *rest)} == {task.id for task in made}
    assert all(task.version == 1 for task in (*claimed, *rest))


async def test_an_older_task_comes_first(tasks: Tasks) -> None:
    task_type = new_type()
    older = await tasks.create(task_type)
    [task] = (await tasks.claim(task_type)).tasks
    [call] = await _waiting(tasks, task_type, "w1")
    assert await tasks.finish(released(task, 0.0)) == ["REQUEUED"]
    newer = await tasks.create(task_type)
    [first] = (await call).tasks
    assert first.id == older.id
    assert [task.id for task in (await tasks.claim(task_type)).tasks] == [newer.id]


async def test_a_delayed_task_or_one_of_a_type_with_a_policy_takes_the_long_way(
    tasks: Tasks, database: Database
) -> None:
    task_type = new_type()
    [call] = await _waiting(tasks, task_type, "w1")
    later = timestamp_pb2.Timestamp()
    later.GetCurrentTime()
    later.seconds += 3600
    made = await tasks.create(task_type, run_after=later)
    assert status_name(made) == "PENDING"
    async with database.begin() as session:
        await session.execute(
            text("INSERT INTO task.queue_policies (type, concurrency_limit) VALUES (:t, 1)"), {"t": task_type}
        )
    due = await tasks.create(task_type)
    assert status_name(due) == "PENDING"
    assert [task.id for task in (await call).tasks] == [due.id]
    async with database.begin() as session:
        running = await session.execute(
            text("SELECT running FROM task.queue_policies WHERE type = :t"), {"t": task_type}
        )
        assert running.scalar_one() == 1


async def test_a_creation_that_is_refused_leaves_its_waiter_waiting(tasks: Tasks) -> None:
    task_type = new_type()
    request_id = f"r-{task_type}"
    first = await tasks.create(task_type, request_id=request_id, subject="a")
    [taken] = (await tasks.claim(task_type)).tasks
    [call] = await _waiting(tasks, task_type, "w1")
    with pytest.raises(AioRpcError, match="other content"):
        await tasks.create(task_type, request_id=request_id, subject="b")
    assert taken.id == first.id
    made = await tasks.create(task_type)
    assert [task.id for task in (await call).tasks] == [made.id]


async def test_a_task_begun_for_a_worker_that_left_is_given_back(tasks: Tasks) -> None:
    task_type = new_type()
    for _ in range(20):
        [call] = await _waiting(tasks, task_type, "w1")
        creating = asyncio.create_task(tasks.create(task_type))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        made = await creating

        async def claimed(task_id: str = made.id) -> bool:
            answer = await tasks.claim(task_type, wait=1.0, worker="w2")
            return [task.id for task in answer.tasks] == [task_id]

        await eventually(claimed)


async def test_a_repeat_of_a_creation_gives_the_running_task(tasks: Tasks) -> None:
    task_type = new_type()
    [call] = await _waiting(tasks, task_type, "w1")
    made = await tasks.create(task_type, request_id=f"q-{task_type}")
    await call
    [other] = await _waiting(tasks, task_type, "w2")
    again = await tasks.create(task_type, request_id=f"q-{task_type}")
    assert again.id == made.id
    fresh = await tasks.create(task_type)
    assert [task.id for task in (await other).tasks] == [fresh.id]
