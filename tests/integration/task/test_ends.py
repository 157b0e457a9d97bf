"""How runs end: failure and retry, release, cancel, attempts (domain.md 1.7–1.11)."""

from __future__ import annotations

import grpc.aio
import pytest
from frontrow.task.v1 import work_pb2

from libs.common.client import error_info
from libs.common.db import Database
from libs.common.testing import eventually
from services.task.models import task_runs
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


async def test_a_completed_run_keeps_its_result_and_is_at_a_hundred_per_cent(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    await tasks.beat((run, 60))
    assert await tasks.finish(completed(run, ext={"clips": 3})) == ["APPLIED"]
    task = await tasks.get(run.id)
    assert (status_name(task), task.progress, task.version) == ("COMPLETED", 100, 2)
    assert task.ext["clips"] == 3
    assert task.HasField("complete_time")
    assert not task.claimed_by


async def test_a_retryable_failure_goes_back_with_a_pause_until_the_attempts_are_used_up(
    serve: Serve, database_url: str
) -> None:
    tasks = Tasks(await serve_task(serve, database_url, retry_base_seconds=0.2, due_interval_seconds=0.1))
    kind = new_type()
    made = await tasks.create(kind, max_attempts=3)
    for attempt in (1, 2):
        [run] = (await tasks.claim(kind, wait=10)).tasks
        assert run.attempt == attempt
        assert await tasks.finish(failed(run, "net", retryable=True)) == ["REQUEUED"]
        task = await tasks.get(made.id)
        assert (status_name(task), task.error_message, task.status_reason) == ("PENDING", "net", "RETRY")
        assert task.HasField("run_after")
        assert task.progress == 0
    [run] = (await tasks.claim(kind, wait=10)).tasks
    assert await tasks.finish(failed(run, "net again", retryable=True)) == ["FAILED"]
    task = await tasks.get(made.id)
    assert (status_name(task), task.error_message, task.status_reason) == ("FAILED", "net again", "FAILED")
    await tasks.close()


async def test_the_pause_grows_with_the_attempts_and_is_drawn_at_random(
    serve: Serve, database_url: str
) -> None:
    tasks = Tasks(await serve_task(serve, database_url, retry_base_seconds=100, retry_longest_seconds=150))
    kind = new_type()
    for _ in range(40):
        await tasks.create(kind)
    runs = list((await tasks.claim(kind, 40)).tasks)
    await tasks.finish(*(failed(run, retryable=True) for run in runs))
    pauses = []
    for run in runs:
        task = await tasks.get(run.id)
        pauses.append(task.run_after.ToMilliseconds() - task.heartbeat_time.ToMilliseconds())
    assert all(0 <= pause <= 110_000 for pause in pauses)
    assert min(pauses) < 40_000 < 60_000 < max(pauses)
    await tasks.close()


async def test_a_long_error_is_cut_on_a_character_boundary_at_four_thousand(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    await tasks.finish(failed(run, "错" * 5_000))
    assert (await tasks.get(run.id)).error_message == "错" * 4_000


async def test_a_release_is_not_charged_and_may_ask_for_a_pause(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    for _ in range(8):
        run = await tasks.claim_one(kind)
        assert run.attempt == 1
        assert await tasks.finish(released(run)) == ["REQUEUED"]
    run = await tasks.claim_one(kind)
    assert run.version == 17
    assert await tasks.finish(released(run, run_after=0.4)) == ["REQUEUED"]
    assert (await tasks.claim(kind)).idle_reason == work_pb2.IDLE_REASON_DUE_LATER
    assert len((await tasks.claim(kind, wait=10)).tasks) == 1


async def test_cancelling_a_pending_task_ends_it_at_once(tasks: Tasks) -> None:
    kind = new_type()
    made = await tasks.create(kind)
    task = await tasks.cancel(made.id)
    assert (status_name(task), task.version, task.status_reason) == ("CANCELLED", 1, "CANCELLED")
    assert len((await tasks.claim(kind)).tasks) == 0


@pytest.mark.parametrize("end", ["completed", "failed", "retryable", "released", "stale"])
async def test_a_running_task_that_shall_be_cancelled_ends_so_whatever_ends_its_run(
    tasks: Tasks, end: str
) -> None:
    kind = new_type()
    made = await tasks.create(kind)
    run = await tasks.claim_one(kind)
    asked = await tasks.cancel(made.id)
    assert (status_name(asked), asked.version) == ("PROCESSING", 1)
    first_asked_at = asked.cancel_request_time
    assert (await tasks.cancel(made.id)).cancel_request_time == first_asked_at
    [lease] = await tasks.beat((run, 10))
    assert lease.cancel_requested
    ends = {"completed": completed(run), "failed": failed(run), "released": released(run)}
    ends["retryable"] = failed(run, retryable=True)
    if end == "stale":
        response = await eventually(lambda: _requeue(tasks, kind))
        assert response
    else:
        assert await tasks.finish(ends[end]) == ["CANCELLED"]
    task = await tasks.get(made.id)
    assert (status_name(task), task.version) == ("CANCELLED", 2)


async def _requeue(tasks: Tasks, kind: str) -> bool:
    response = await tasks.requeue(kind, 0.05)
    assert (response.requeued, response.abandoned) == (0, 0)
    return len((await tasks.claim(kind)).tasks) == 0 and not await _running(tasks, kind)


async def _running(tasks: Tasks, kind: str) -> bool:
    from frontrow.task.v1 import task_pb2
    from frontrow.task.v1 import task_service_pb2 as pb

    request = pb.ListTasksRequest(types=[kind], statuses=[task_pb2.TASK_STATUS_PROCESSING])
    return bool((await tasks.stub.ListTasks(request, timeout=20)).tasks)


async def test_a_retry_clears_the_results_and_queues_anew(tasks: Tasks) -> None:
    kind = new_type()
    first = await tasks.create(kind)
    second = await tasks.create(kind)
    run = await tasks.claim_one(kind)
    await tasks.beat((run, 50))
    await tasks.finish(failed(run, "no"))
    task = await tasks.retry(first.id)
    assert (status_name(task), task.version, task.attempt, task.progress) == ("PENDING", 3, 0, 0)
    assert not task.error_message
    assert not task.status_reason
    assert not task.HasField("complete_time")
    assert task.queue_time.ToNanoseconds() > first.queue_time.ToNanoseconds()
    # It queues behind what came meanwhile.
    assert [run.id for run in (await tasks.claim(kind, 2)).tasks] == [second.id, first.id]


async def test_a_cancelled_task_can_be_retried_and_then_runs(tasks: Tasks) -> None:
    kind = new_type()
    made = await tasks.create(kind)
    await tasks.cancel(made.id)
    assert not (await tasks.retry(made.id)).HasField("cancel_request_time")
    run = await tasks.claim_one(kind)
    assert await tasks.finish(completed(run)) == ["APPLIED"]


async def test_cancel_and_retry_say_what_state_forbids_them(tasks: Tasks) -> None:
    kind = new_type()
    made = await tasks.create(kind)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await tasks.retry(made.id)
    info = error_info(caught.value)
    assert (info.code, info.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "TASK_NOT_RETRYABLE")
    assert info.metadata["status"] == "pending"
    await tasks.finish(completed(await tasks.claim_one(kind)))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await tasks.cancel(made.id)
    info = error_info(caught.value)
    assert (info.code, info.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "TASK_NOT_CANCELLABLE")
    assert info.metadata["status"] == "completed"


async def test_a_task_whose_worker_is_lost_each_time_is_abandoned_at_its_last_attempt(
    tasks: Tasks, database: Database
) -> None:
    kind = new_type()
    made = await tasks.create(kind, max_attempts=2)
    await tasks.claim_one(kind, worker="first")
    assert (await eventually(lambda: _taken_back(tasks, kind))).requeued == 1
    await tasks.claim_one(kind, worker="second")
    assert (await eventually(lambda: _taken_back(tasks, kind))).abandoned == 1
    task = await tasks.get(made.id)
    assert (status_name(task), task.status_reason) == ("FAILED", "ABANDONED")
    assert "second" in task.error_message
    async with database.begin() as session:
        query = task_runs.select().where(task_runs.c.task_id == made.id).order_by(task_runs.c.version)
        runs = (await session.execute(query)).mappings().all()
    assert [(run["version"], run["worker_id"], run["ended_as"], run["outcome"]) for run in runs] == [
        (1, "first", "lost", "requeued"),
        (3, "second", "lost", "failed"),
    ]


async def _taken_back(tasks: Tasks, kind: str) -> object:
    response = await tasks.requeue(kind, 0.05)
    return response if response.requeued + response.abandoned else None


@pytest.mark.parametrize("seconds", [0.0, -5.0])
async def test_a_requeue_without_a_positive_age_is_refused(tasks: Tasks, seconds: float) -> None:
    from frontrow.task.v1 import task_service_pb2 as pb

    for request in (
        pb.RequeueStaleTasksRequest(type="asr", older_than=lasting(seconds)),
        pb.RequeueStaleTasksRequest(type="asr"),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await tasks.stub.RequeueStaleTasks(request, timeout=20)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert error_info(caught.value).violations[0].field == "older_than"
