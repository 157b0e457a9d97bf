"""Claims: each task to exactly one caller, in one order, at once when something arrives."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import grpc.aio
import pytest
from frontrow.task.v1 import task_pb2, work_pb2
from frontrow.task.v1 import task_service_pb2 as pb
from google.protobuf import timestamp_pb2

from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.task.service import (
    Tasks,
    completed,
    lasting,
    new_type,
    outcome_name,
    released,
    serve_task,
    status_name,
)


async def test_forty_claimers_share_twenty_tasks_and_none_is_left(
    serve: Serve, database_url: str, tasks: Tasks
) -> None:
    kind = new_type()
    ids = [(await tasks.create(kind)).id for _ in range(20)]
    others = [Tasks(await serve_task(serve, database_url)) for _ in range(2)]
    servers = [tasks, *others]
    answers = await asyncio.gather(
        *(servers[index % 3].claim(kind, worker=f"w{index}") for index in range(40))
    )
    handed_out = Counter(task.id for answer in answers for task in answer.tasks)
    assert handed_out == Counter(ids)
    assert (await tasks.claim(kind)).idle_reason == work_pb2.IDLE_REASON_EMPTY
    for other in others:
        await other.close()


async def test_a_claim_starts_a_run_with_a_version_an_attempt_and_a_lease(tasks: Tasks) -> None:
    kind = new_type()
    made = await tasks.create(kind, payload={"a": "利率"}, subject="thing:1", live_material_name="直播")
    response = await tasks.claim(kind, worker="me")
    [task] = response.tasks
    assert (task.id, task.version, task.attempt, task.claimed_by) == (made.id, 1, 1, "me")
    assert task.payload["a"] == "利率"
    assert (task.subject, task.live_material_name) == ("thing:1", "直播")
    assert task.lease_expire_time.ToSeconds() - task.start_time.ToSeconds() in {60, 61}
    assert response.beat_interval.ToSeconds() == 20
    stored = await tasks.get(made.id)
    assert (status_name(stored), stored.version, stored.progress) == ("PROCESSING", 1, 0)
    assert stored.lease_expire_time == task.lease_expire_time


async def test_the_oldest_is_claimed_first_and_priority_moves_a_task_sixty_seconds_a_unit(
    tasks: Tasks, database_url: str
) -> None:
    kind = new_type()
    names = {}
    for name, priority in (("first", 0), ("second", 0), ("urgent", 2), ("late", -1), ("third", 0)):
        names[(await tasks.create(kind, priority=priority)).id] = name
    order = [names[task.id] for task in (await tasks.claim(kind, 3)).tasks]
    order += [names[(await tasks.claim_one(kind)).id] for _ in range(2)]
    assert order == ["urgent", "first", "second", "third", "late"]


async def test_a_task_that_came_back_keeps_its_place_before_younger_ones(tasks: Tasks) -> None:
    kind = new_type()
    first = await tasks.create(kind)
    run = await tasks.claim_one(kind)
    younger = [(await tasks.create(kind)).id for _ in range(3)]
    assert await tasks.finish(released(run)) == ["REQUEUED"]
    assert [task.id for task in (await tasks.claim(kind, 2)).tasks] == [first.id, younger[0]]
    assert [task.id for task in (await tasks.claim(kind, 5)).tasks] == younger[1:]


async def test_a_claim_of_several_types_takes_the_lowest_order_over_all(tasks: Tasks) -> None:
    one, two = new_type(), new_type()
    made = [(await tasks.create(kind)).id for kind in (two, one, two, two, one)]
    assert [task.id for task in (await tasks.claim([one, two], 3)).tasks] == made[:3]
    assert [task.id for task in (await tasks.claim([one, two], 9)).tasks] == made[3:]
    assert (await tasks.claim([one, two], 9)).idle_reason == work_pb2.IDLE_REASON_EMPTY


async def test_a_delayed_task_is_not_claimed_before_its_time_and_wakes_a_waiter_then(tasks: Tasks) -> None:
    kind = new_type()
    due = timestamp_pb2.Timestamp()
    due.FromNanoseconds(time.time_ns() + 700_000_000)
    made = await tasks.create(kind, run_after=due)
    assert (await tasks.claim(kind)).idle_reason == work_pb2.IDLE_REASON_DUE_LATER
    began = time.monotonic()
    [task] = (await tasks.claim(kind, wait=10)).tasks
    assert task.id == made.id
    assert 0.3 < time.monotonic() - began < 3


async def test_a_waiting_claim_gets_a_new_task_within_milliseconds(tasks: Tasks) -> None:
    kind = new_type()
    delays = []
    for _ in range(5):
        waiting = asyncio.ensure_future(tasks.claim(kind, wait=20))
        await asyncio.wait({waiting}, timeout=0.1)
        began = time.monotonic()
        await tasks.create(kind)
        assert len((await waiting).tasks) == 1
        delays.append(time.monotonic() - began)
    assert min(delays) < 0.25


async def test_a_task_made_by_one_server_wakes_a_waiter_of_another(
    serve: Serve, database_url: str, tasks: Tasks
) -> None:
    kind = new_type()
    other = Tasks(await serve_task(serve, database_url, poll_seconds=600))
    await other.claim(kind)
    waiting = asyncio.ensure_future(other.claim(kind, wait=30))
    made: list[str] = []

    async def woken() -> bool:
        # Each try is a fresh signal: the first may come before the other server listens.
        made.append((await tasks.create(kind)).id)
        await asyncio.wait({waiting}, timeout=0.5)
        return waiting.done()

    await eventually(woken)
    assert (await waiting).tasks[0].id in made
    await other.close()


async def test_a_hundred_new_tasks_wake_a_hundred_waiters_and_one_wakes_one(tasks: Tasks) -> None:
    kind = new_type()
    waiting = [asyncio.ensure_future(tasks.claim(kind, worker=f"w{index}", wait=30)) for index in range(100)]
    await asyncio.wait(waiting, timeout=0.5)
    await tasks.create(kind)
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=10)
    assert len(done) == 1
    request = pb.BatchCreateTasksRequest(
        requests=[pb.CreateTaskRequest(type=kind, request_id=f"{kind}-{index}") for index in range(99)]
    )
    await tasks.stub.BatchCreateTasks(request, timeout=20)
    answers = await asyncio.gather(*waiting)
    assert len({task.id for answer in answers for task in answer.tasks}) == 100


async def test_few_tasks_are_spread_over_the_waiters_with_many_slots(tasks: Tasks) -> None:
    kind = new_type()
    waiting = [
        asyncio.ensure_future(tasks.claim(kind, 10, worker=f"w{index}", wait=30)) for index in range(3)
    ]
    await asyncio.wait(waiting, timeout=0.3)
    request = pb.BatchCreateTasksRequest(
        requests=[pb.CreateTaskRequest(type=kind, request_id=f"{kind}-{index}") for index in range(6)]
    )
    await tasks.stub.BatchCreateTasks(request, timeout=20)
    assert [len(answer.tasks) for answer in await asyncio.gather(*waiting)] == [2, 2, 2]


async def test_a_wait_that_ends_without_work_is_empty_and_not_an_error(tasks: Tasks) -> None:
    began = time.monotonic()
    answer = await tasks.claim(new_type(), wait=0.4)
    assert (len(answer.tasks), answer.idle_reason) == (0, work_pb2.IDLE_REASON_EMPTY)
    assert 0.3 < time.monotonic() - began < 5


async def test_what_was_claimed_for_a_caller_who_left_is_given_back_uncharged(
    serve: Serve, database_url: str
) -> None:
    tasks = Tasks(await serve_task(serve, database_url, lost_claim_seconds=0.1))
    kind = new_type()
    for _ in range(20):
        waiting = asyncio.ensure_future(tasks.claim(kind, wait=20, worker="gone"))
        await asyncio.gather(tasks.create(kind), _leave_soon(waiting))
        [answer] = await asyncio.gather(waiting, return_exceptions=True)
        if isinstance(answer, pb.ClaimTasksResponse):
            await tasks.finish(completed(answer.tasks[0]), worker="gone")
            continue
        # The answer may have been on its way already: then only the next beats tell that it was lost.
        [task] = await eventually(lambda: _claimed(tasks, kind), 5)
        assert task.attempt == 1
        await tasks.finish(completed(task), worker="next")
    await tasks.close()


async def _leave_soon(waiting: asyncio.Future[pb.ClaimTasksResponse]) -> None:
    await asyncio.wait({waiting}, timeout=0.002)
    waiting.cancel()


async def _claimed(tasks: Tasks, kind: str) -> list[task_pb2.Task]:
    await tasks.beat(worker="gone")
    return list((await tasks.claim(kind, worker="next")).tasks)


async def test_one_call_finishes_and_claims_and_does_not_wait(tasks: Tasks) -> None:
    kind = new_type()
    for _ in range(3):
        await tasks.create(kind)
    [first] = (await tasks.claim(kind)).tasks
    answer = await tasks.claim(kind, 5, finish=[completed(first)], wait=30)
    assert [outcome_name(result.outcome) for result in answer.finish_results] == ["APPLIED"]
    assert len(answer.tasks) == 2
    began = time.monotonic()
    answer = await tasks.claim(kind, 5, finish=[completed(task) for task in answer.tasks], wait=30)
    assert len(answer.finish_results) == 2
    assert answer.idle_reason == work_pb2.IDLE_REASON_EMPTY
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("request_fields", "field"),
    [
        ({"types": ["x"], "max_tasks": 1}, "worker_id"),
        ({"worker_id": "w", "types": ["x"], "max_tasks": 101}, "max_tasks"),
        ({"worker_id": "w", "max_tasks": 1}, "types"),
        ({"worker_id": "w", "types": ["x"], "max_tasks": 1, "wait": lasting(61)}, "wait"),
    ],
)
async def test_a_claim_out_of_bounds_is_refused_by_field(
    tasks: Tasks, request_fields: dict[str, object], field: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await tasks.stub.ClaimTasks(pb.ClaimTasksRequest(**request_fields), timeout=20)  # type: ignore[arg-type]
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert field in (caught.value.details() or "")
