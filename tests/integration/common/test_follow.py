"""Rows that follow their tasks by level: a real database on one side, a real server on the other."""

import asyncio
from collections.abc import AsyncIterator

import grpc.aio
import pytest
from frontrow.task.v1 import task_pb2
from sqlalchemy import text

from libs.common.client import connect
from libs.common.db import Database
from libs.common.follow import Follower
from libs.common.tasks import TaskPeer
from libs.common.testing import eventually
from tests.integration.common.follow_bed import Jobs, Service, make_job_table
from tests.integration.common.task_server import (
    CANCELLED,
    COMPLETED,
    FAILED,
    PENDING,
    PROCESSING,
    MemoryTasks,
)


@pytest.fixture(scope="module")
async def table(database: Database) -> None:
    await make_job_table(database)


@pytest.fixture
async def jobs(database: Database, table: None) -> Jobs:
    async with database.begin() as session:
        await session.execute(text("TRUNCATE shop.job"))
    return Jobs(database)


@pytest.fixture
def tasks() -> MemoryTasks:
    return MemoryTasks()


@pytest.fixture
async def service(tasks: MemoryTasks) -> AsyncIterator[Service]:
    running = Service(tasks)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def peer(service: Service) -> AsyncIterator[TaskPeer]:
    async with connect(service.address) as channel:
        yield TaskPeer(channel)


@pytest.fixture
def follower(peer: TaskPeer, jobs: Jobs) -> Follower:
    """A follower that is not started: ``look`` is one comparison."""
    return Follower(peer, jobs)


@pytest.fixture
async def patient(peer: TaskPeer, jobs: Jobs) -> AsyncIterator[Follower]:
    """A running follower that would look by itself only in an hour."""
    made = Follower(peer, jobs, types=["asr"], interval_seconds=3600)
    await made.start()
    yield made
    await made.stop()


def _task(task_id: str, status: task_pb2.TaskStatus.ValueType, version: int, **fields: str) -> task_pb2.Task:
    return task_pb2.Task(id=task_id, status=status, version=version, **fields)  # type: ignore[arg-type]


async def test_a_new_a_running_and_a_completed_task_change_nothing(
    follower: Follower, jobs: Jobs, tasks: MemoryTasks
) -> None:
    tasks.put(_task(await jobs.add("new"), PENDING, 0))
    tasks.put(_task(await jobs.add("running"), PROCESSING, 1))
    tasks.put(_task(await jobs.add("done"), COMPLETED, 2))
    await follower.look()
    assert jobs.acts == []
    assert {(await jobs.row(owner))[1] for owner in ("new", "running", "done")} == {0}


async def test_a_requeued_task_puts_its_row_back_once_for_each_version(
    follower: Follower, jobs: Jobs, tasks: MemoryTasks
) -> None:
    task_id = await jobs.add("a", status="processing", seen_version=1)
    tasks.put(_task(task_id, PENDING, 2))
    await follower.look()
    await follower.look()
    assert jobs.acts == [("requeued", "a", 2)]
    assert await jobs.row("a") == ("pending", 2, "", "")
    tasks.put(_task(task_id, PROCESSING, 3))
    await follower.look()
    tasks.put(_task(task_id, PENDING, 4))
    await follower.look()
    assert jobs.acts == [("requeued", "a", 2), ("requeued", "a", 4)]


@pytest.mark.parametrize(
    ("task", "reason", "message"),
    [
        (_task("", FAILED, 2, error_message="no audio"), "FAILED", "no audio"),
        (_task("", FAILED, 2, error_message="", status_reason="ABANDONED"), "ABANDONED", ""),
        (_task("", CANCELLED, 2, error_message="earlier trouble"), "CANCELLED", "earlier trouble"),
    ],
)
async def test_a_task_that_ended_badly_fails_its_row_with_the_reason(
    follower: Follower, jobs: Jobs, tasks: MemoryTasks, task: task_pb2.Task, reason: str, message: str
) -> None:
    task.id = await jobs.add("a", status="processing", seen_version=1)
    tasks.put(task)
    await follower.look()
    await follower.look()
    assert jobs.acts == [("ended", "a", 2)]
    assert await jobs.row("a") == ("failed", 2, reason, message)


async def test_a_task_that_is_not_there_yet_changes_nothing(follower: Follower, jobs: Jobs) -> None:
    await jobs.add("a")
    await follower.look()
    assert jobs.acts == []
    assert await jobs.row("a") == ("pending", 0, "", "")


async def test_what_was_seen_already_is_not_acted_on_again(
    follower: Follower, jobs: Jobs, tasks: MemoryTasks
) -> None:
    tasks.put(_task(await jobs.add("a", seen_version=7), FAILED, 7))
    await follower.look()
    assert jobs.acts == []


async def test_a_row_that_completes_or_gets_another_task_meanwhile_is_left_alone(jobs: Jobs) -> None:
    task_id = await jobs.add("a", status="completed")
    await jobs.ended("a", task_id, 5, "FAILED", "too late")
    other = await jobs.add("b")
    assert other != task_id
    await jobs.requeued("b", task_id, 5)
    assert jobs.acts == []


async def test_many_rows_are_asked_for_a_hundred_at_a_time(
    follower: Follower, jobs: Jobs, tasks: MemoryTasks
) -> None:
    for task_id in await jobs.add_many(1001):
        tasks.put(_task(task_id, PROCESSING, 1))
    last = await jobs.add("the last one")
    tasks.put(_task(last, PENDING, 2))
    await follower.look()
    assert tasks.batches == [100] * 10 + [2]
    assert jobs.acts == [("requeued", "the last one", 2)]


async def test_a_long_queue_is_asked_for_by_slices_while_the_stream_flows(
    patient: Follower, jobs: Jobs, tasks: MemoryTasks
) -> None:
    await eventually(lambda: tasks.watching == 1)
    patient.wake()
    await asyncio.sleep(0.5)  # now a look has found that there was nothing, with the stream open
    many = await jobs.add_many(2500)
    for task_id in many:
        tasks.tasks[task_id] = _task(task_id, PENDING, 2)  # a signal that is lost
    tasks.put(_task(many[7], FAILED, 3))  # one that isn't
    await eventually(lambda: ("ended", f"row of {many[7]}", 3) in jobs.acts, 30)
    for asked in (1000, 2000, 3000):
        await eventually(lambda asked=asked: sum(tasks.batches) == asked, 30)  # type: ignore[misc]
        patient.wake()
    await eventually(lambda: len(jobs.acts) == 2500, 30)  # every row's turn has come


async def test_a_stream_that_the_server_has_not_taken_yet_stands_in_for_nothing(
    peer: TaskPeer, jobs: Jobs, tasks: MemoryTasks
) -> None:
    tasks.accepts.clear()
    follower = Follower(peer, jobs, interval_seconds=3600)
    await follower.start()
    await eventually(lambda: tasks.watches)
    for task_id in await jobs.add_many(1500):
        tasks.tasks[task_id] = _task(task_id, PROCESSING, 1)
    for looks in (1, 2):
        await follower.look()
        assert sum(tasks.batches) == looks * 1500
    tasks.accepts.set()
    await follower.stop()


async def test_what_breaks_for_one_row_does_not_hold_up_the_others(
    follower: Follower, jobs: Jobs, tasks: MemoryTasks
) -> None:
    for owner in "abc":
        tasks.put(_task(await jobs.add(owner), FAILED, 2))
    jobs.broken.add("a")
    await follower.look()
    assert jobs.acts == [("ended", "b", 2), ("ended", "c", 2)]
    jobs.broken.clear()
    await follower.look()
    assert jobs.acts[2:] == [("ended", "a", 2)]


async def test_a_change_is_acted_on_at_once_because_it_is_watched(
    patient: Follower, jobs: Jobs, tasks: MemoryTasks
) -> None:
    await eventually(lambda: tasks.watching == 1)
    assert list(tasks.watches[0].types) == ["asr"]
    task_id = await jobs.add("a", status="processing", seen_version=1)
    tasks.put(_task(task_id, FAILED, 2))
    await eventually(lambda: jobs.acts == [("ended", "a", 2)])


async def test_a_failed_row_is_acted_on_however_old_it_is_because_it_is_watched(
    patient: Follower, jobs: Jobs, tasks: MemoryTasks
) -> None:
    jobs.failed_shown = 0
    await eventually(lambda: tasks.watching == 1)
    task_ids = [await jobs.add(owner, status="failed", seen_version=2) for owner in "abcdefgh"]
    tasks.put(_task(task_ids[-1], PENDING, 3))
    await eventually(lambda: jobs.acts == [("requeued", "h", 3)])


async def test_every_failed_row_is_asked_for_in_turn(
    follower: Follower, jobs: Jobs, tasks: MemoryTasks
) -> None:
    jobs.failed_shown = 0
    for owner in "abcde":
        tasks.put(_task(await jobs.add(owner, status="failed", seen_version=2), PENDING, 3))
    await follower.look()
    assert jobs.acts == [("requeued", "a", 3), ("requeued", "b", 3)]
    for _ in range(2):
        await follower.look()
    assert [owner for _, owner, _ in jobs.acts] == list("abcde")


async def test_progress_of_running_tasks_causes_no_comparisons(
    patient: Follower, jobs: Jobs, tasks: MemoryTasks
) -> None:
    task_id = await jobs.add("a")
    patient.wake()
    await eventually(lambda: len(tasks.batches) >= 1 and tasks.watching == 1)
    looks = len(tasks.batches)
    for _ in range(50):
        tasks.put(_task(task_id, PROCESSING, 1))
    tasks.put(_task(task_id, PENDING, 2))
    await eventually(lambda: jobs.acts == [("requeued", "a", 2)])
    assert len(tasks.batches) <= looks + 2


async def test_a_broken_stream_is_opened_again_and_what_happened_between_is_seen(
    patient: Follower, jobs: Jobs, tasks: MemoryTasks, service: Service
) -> None:
    await eventually(lambda: tasks.watching == 1)
    await service.stop()
    await eventually(lambda: tasks.watching == 0)
    task_id = await jobs.add("a")
    tasks.put(_task(task_id, FAILED, 1))
    await service.start()
    await eventually(lambda: jobs.acts == [("ended", "a", 1)])
    await eventually(lambda: tasks.watching == 1)
    tasks.put(_task(await jobs.add("b"), CANCELLED, 1))
    await eventually(lambda: jobs.acts[1:] == [("ended", "b", 1)])


async def test_without_any_signal_the_interval_is_enough(
    peer: TaskPeer, jobs: Jobs, tasks: MemoryTasks
) -> None:
    follower = Follower(peer, jobs, interval_seconds=0.05)
    task_id = await jobs.add("a")
    await follower.start()
    await eventually(lambda: len(tasks.batches) >= 2)
    tasks.tasks[task_id] = _task(task_id, FAILED, 1)  # no watcher is told
    await eventually(lambda: jobs.acts == [("ended", "a", 1)])
    await follower.stop()


async def test_a_task_service_that_is_away_at_the_start_is_waited_for(
    peer: TaskPeer, jobs: Jobs, tasks: MemoryTasks, service: Service
) -> None:
    await service.stop()
    tasks.put(_task(await jobs.add("a"), FAILED, 1))
    with pytest.raises(grpc.aio.AioRpcError):
        await Follower(peer, jobs).look()
    follower = Follower(peer, jobs, interval_seconds=0.05)
    await follower.start()
    await service.start()
    await eventually(lambda: jobs.acts == [("ended", "a", 1)])
    await follower.stop()


async def test_stopping_ends_the_stream_and_can_be_repeated(patient: Follower, tasks: MemoryTasks) -> None:
    await eventually(lambda: tasks.watching == 1)
    await patient.stop()
    await patient.stop()
    await eventually(lambda: tasks.watching == 0)
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("follow")]
