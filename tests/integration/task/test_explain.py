"""Explanations: what keeps a task from running, or what happened to it, run by run."""

from __future__ import annotations

import grpc.aio
import pytest
from frontrow.task.v1 import queue_pb2
from frontrow.task.v1 import task_service_pb2 as pb

from libs.common.client import error_info
from libs.common.testing import eventually
from tests.integration.task.service import Tasks, completed, failed, new_type, released
from tests.integration.task.test_queues import set_policy


async def explain(tasks: Tasks, task_id: str) -> pb.ExplainTaskResponse:
    """Ask about a task."""
    return await tasks.stub.ExplainTask(pb.ExplainTaskRequest(task_id=task_id), timeout=20)


def _kinds(explanation: pb.ExplainTaskResponse) -> set[str]:
    return {
        queue_pb2.HindranceKind.Name(item.kind).removeprefix("HINDRANCE_KIND_")
        for item in explanation.hindrances
    }


async def test_an_explanation_names_what_keeps_a_pending_task(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    second = await tasks.create(kind)
    told = await explain(tasks, second.id)
    assert _kinds(told) == {"NO_WORKER", "QUEUED"}
    assert told.ahead == 1
    await set_policy(tasks, kind, paused=True)
    assert "PAUSED" in _kinds(await explain(tasks, second.id))
    await set_policy(tasks, kind, paused=False, concurrency_limit=1)
    run = await tasks.claim_one(kind, worker="w")
    told = await explain(tasks, second.id)
    assert "LIMIT" in _kinds(told)
    assert "limit is 1" in told.summary
    await tasks.finish(released(run, run_after=600))
    assert "DUE_LATER" in _kinds(await explain(tasks, run.id))

    async def next_in_line() -> bool:
        told = await explain(tasks, second.id)
        return not told.hindrances and "next" in told.summary

    await eventually(next_in_line)


async def test_an_explanation_tells_what_happened_run_by_run(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind, max_attempts=2)
    first = await tasks.claim_one(kind, worker="alpha")
    await tasks.finish(released(first), worker="alpha")
    await tasks.finish(completed(first), worker="alpha")
    second = await tasks.claim_one(kind, worker="beta")
    told = await explain(tasks, second.id)
    assert "beta" in told.summary
    assert [(run.version, run.worker_id, run.ended_as, run.late_writes) for run in told.runs] == [
        (1, "alpha", "released", 1),
        (3, "beta", "", 0),
    ]
    await tasks.finish(failed(second, "the recording has no sound"), worker="beta")
    told = await explain(tasks, second.id)
    assert "the recording has no sound" in told.summary
    assert [run.outcome for run in told.runs] == ["requeued", "failed"]
    assert not told.hindrances


async def test_an_unknown_task_cannot_be_explained(tasks: Tasks) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await explain(tasks, "01a22e4c-eb1c-75af-a45a-f829e77d972c")
    assert error_info(caught.value).reason == "TASK_NOT_FOUND"
