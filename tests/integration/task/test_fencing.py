"""A late write changes nothing, whoever sends it (domain.md 1.3, 1.16)."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import grpc.aio
import pytest
from frontrow.task.v1 import task_pb2
from frontrow.task.v1 import task_service_pb2 as pb

from libs.common.client import error_info
from libs.common.db import Database
from libs.common.testing import eventually
from services.task.models import task_runs
from tests.conftest import Serve
from tests.integration.task.service import (
    Tasks,
    completed,
    failed,
    lease_name,
    new_type,
    released,
    serve_task,
    status_name,
)


async def _urls(tasks: Tasks, task: task_pb2.Task) -> pb.UpdateTaskUrlsResponse:
    request = pb.UpdateTaskUrlsRequest(
        task_id=task.id, version=task.version, draft_url="https://late.example"
    )
    return await tasks.stub.UpdateTaskUrls(request, timeout=20)


async def test_after_a_requeue_and_a_new_claim_every_write_of_the_old_run_is_refused_and_the_row_is_untouched(
    serve: Serve, database_url: str
) -> None:
    tasks = Tasks(await serve_task(serve, database_url, lease_seconds=3, sweep_interval_seconds=0.1))
    kind = new_type()
    await tasks.create(kind)
    old = await tasks.claim_one(kind, worker="zombie")

    async def given_back() -> bool:
        return status_name(await tasks.get(old.id)) == "PENDING"

    await eventually(given_back)
    assert (await tasks.get(old.id)).status_reason == "STALE"
    new = await tasks.claim_one(kind, worker="owner")
    assert (new.id, new.version, new.attempt) == (old.id, old.version + 2, 2)
    await tasks.beat((new, 40), worker="owner")
    before = await tasks.get(old.id)

    [beaten] = await tasks.beat((old, 90), worker="zombie")
    assert lease_name(beaten) == "LEASE_LOST"
    assert await tasks.finish(completed(old), worker="zombie") == ["LEASE_LOST"]
    assert await tasks.finish(failed(old), worker="zombie") == ["LEASE_LOST"]
    assert await tasks.finish(failed(old, retryable=True), worker="zombie") == ["LEASE_LOST"]
    assert await tasks.finish(released(old), worker="zombie") == ["LEASE_LOST"]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _urls(tasks, old)
    assert caught.value.code() == grpc.StatusCode.ABORTED
    assert error_info(caught.value).reason == "LEASE_LOST"

    assert await tasks.get(old.id) == before
    assert await tasks.finish(completed(new), worker="owner") == ["APPLIED"]
    await tasks.close()


async def test_late_writes_are_counted_on_the_record_of_their_run(tasks: Tasks, database: Database) -> None:
    kind = new_type()
    await tasks.create(kind)
    old = await tasks.claim_one(kind)
    assert await tasks.finish(released(old)) == ["REQUEUED"]
    await tasks.finish(completed(old))
    await tasks.finish(failed(old), failed(old))
    with pytest.raises(grpc.aio.AioRpcError):
        await _urls(tasks, old)
    async with database.begin() as session:
        [run] = (await session.execute(task_runs.select().where(task_runs.c.task_id == old.id))).mappings()
    assert (run["version"], run["ended_as"], run["outcome"], run["late_writes"]) == (
        1,
        "released",
        "requeued",
        4,
    )


async def test_a_repeated_finish_gets_its_first_answer_for_each_way_to_end(tasks: Tasks) -> None:
    kind = new_type()
    for _ in range(5):
        await tasks.create(kind, max_attempts=2)
    runs = list((await tasks.claim(kind, 5)).tasks)
    await tasks.cancel(runs[4].id)
    items = [
        completed(runs[0]),
        failed(runs[1]),
        failed(runs[2], retryable=True),
        released(runs[3]),
        completed(runs[4]),
    ]
    first = await tasks.finish(*items)
    assert first == ["APPLIED", "FAILED", "REQUEUED", "REQUEUED", "CANCELLED"]
    before = [await tasks.get(run.id) for run in runs]
    assert await tasks.finish(*items) == first
    assert await tasks.finish(*items, *items) == first + first
    assert [await tasks.get(run.id) for run in runs] == before


async def test_a_repeat_keeps_its_answer_even_after_the_next_run_began(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    first = await tasks.claim_one(kind)
    assert await tasks.finish(released(first)) == ["REQUEUED"]
    second = await tasks.claim_one(kind)
    assert await tasks.finish(released(first)) == ["REQUEUED"]
    assert (await tasks.get(first.id)).version == second.version


async def test_a_run_named_twice_in_one_call_is_ended_once_by_the_first(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    assert await tasks.finish(completed(run), failed(run), completed(run)) == [
        "APPLIED",
        "LEASE_LOST",
        "APPLIED",
    ]
    assert status_name(await tasks.get(run.id)) == "COMPLETED"


async def test_many_finishes_of_one_run_at_once_give_one_end(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    answers = await asyncio.gather(
        *(tasks.finish(completed(run) if index % 2 else failed(run)) for index in range(20))
    )
    ends = {answer for [answer] in answers}
    assert ends in ({"APPLIED", "LEASE_LOST"}, {"FAILED", "LEASE_LOST"})
    assert (await tasks.get(run.id)).version == 2


async def test_a_version_that_was_never_claimed_is_refused(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    run.version += 1
    assert await tasks.finish(completed(run)) == ["LEASE_LOST"]
    run.id = str(uuid4())
    assert await tasks.finish(completed(run)) == ["NOT_FOUND"]
    assert [lease_name(result) for result in await tasks.beat((run, None))] == ["NOT_FOUND"]


async def test_finished_tasks_change_in_no_way(tasks: Tasks) -> None:
    kind = new_type()
    for _ in range(2):
        await tasks.create(kind)
    runs = list((await tasks.claim(kind, 2)).tasks)
    await tasks.finish(completed(runs[0], ext={"n": 1}), failed(runs[1]))
    before = [await tasks.get(run.id) for run in runs]
    for run in runs:
        await tasks.finish(released(run), failed(run, retryable=True))
        await tasks.beat((run, 99))
        with pytest.raises(grpc.aio.AioRpcError):
            await tasks.cancel(run.id)
        with pytest.raises(grpc.aio.AioRpcError):
            await _urls(tasks, run)
    with pytest.raises(grpc.aio.AioRpcError):
        await tasks.retry(runs[0].id)
    assert len((await tasks.claim(kind, 5)).tasks) == 0
    assert [await tasks.get(run.id) for run in runs] == before


async def test_progress_that_comes_too_late_is_counted_with_the_run_it_came_from(tasks: Tasks) -> None:
    kind = new_type()
    made = await tasks.create(kind)
    old = await tasks.claim_one(kind)
    await tasks.finish(released(old))
    new = await tasks.claim_one(kind)
    for _ in range(3):
        answers = await tasks.beat((old, 90), (new, 10))
        assert [lease_name(answer) for answer in answers] == ["LEASE_LOST", "RENEWED"]
    await tasks.beat((old, None))  # nothing to write
    told = await tasks.stub.ExplainTask(pb.ExplainTaskRequest(task_id=made.id), timeout=20)
    assert [run.late_writes for run in told.runs] == [3, 0]
    assert (await tasks.get(made.id)).progress == 10
