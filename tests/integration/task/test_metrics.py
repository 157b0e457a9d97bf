"""What a task server counts, and how full it says its queues are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import grpc.aio
import pytest
from frontrow.task.v1 import task_service_pb2 as pb
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from libs.common.settings import TelemetrySettings
from libs.common.testing import eventually
from services.task.metrics import CAUSES, MOST_TYPES, TaskMetrics
from services.task.mount import mount
from services.task.settings import TaskSettings
from services.task.states import FINAL, Status
from tests.conftest import Serve
from tests.integration.task.service import (
    Tasks,
    common_settings,
    completed,
    failed,
    lease_name,
    new_type,
    released,
)

Numbers = dict[tuple[str, ...], float]
Read = Callable[[str], Numbers]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Give what reads a metric of this process, by the values of its labels."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)

    def numbers(name: str) -> Numbers:
        data = reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        points = [p for scope in scopes for m in scope.metrics if m.name == name for p in m.data.data_points]
        return {tuple(point.attributes.values()): point.value for point in points}

    return numbers


async def serve_measured(serve: Serve, database_url: str, **settings: float) -> Tasks:
    """Start a server whose metrics somebody wants."""
    common = replace(common_settings(database_url), telemetry=TelemetrySettings(metrics_listen="127.0.0.1:0"))
    return Tasks(await serve("task", await mount(TaskSettings(**settings), common)))


async def test_what_becomes_of_tasks_is_counted_by_type_and_cause(
    serve: Serve, database_url: str, read: Read
) -> None:
    tasks, kind = await serve_measured(serve, database_url), new_type()
    for _ in range(4):
        await tasks.create(kind)
    first, second, third = (await tasks.claim(kind, 3)).tasks
    assert await tasks.finish(completed(first), released(second), failed(third, retryable=False)) == [
        "APPLIED", "REQUEUED", "FAILED",
    ]  # fmt: skip
    again = (await tasks.claim(kind, 2)).tasks
    await tasks.finish(failed(again[0], retryable=True))
    assert read("task.created") == {(kind,): 4}
    assert read("task.claims") == {(kind,): 5}
    assert _counted(read("task.requeues")) == {(kind, "released"): 1, (kind, "failed"): 1}
    assert _counted(read("task.finished")) == {(kind, "completed"): 1, (kind, "failed"): 1}
    await tasks.close()


def _counted(numbers: Numbers) -> Numbers:
    return {labels: number for labels, number in numbers.items() if number}


async def test_what_may_become_of_a_types_runs_is_there_before_the_first_one(
    serve: Serve, database_url: str, read: Read
) -> None:
    """An alert on a rise misses a series that begins with it."""
    kind = new_type()
    before = await serve_measured(serve, database_url)
    await before.create(kind)
    wanted = {(kind, cause) for cause in CAUSES}
    assert wanted <= read("task.requeues").keys()
    assert {(kind, status.value) for status in FINAL} <= read("task.finished").keys()
    await before.close()


def test_a_type_of_before_the_start_is_there_once_its_queue_was_looked_at(read: Read) -> None:
    measured = TaskMetrics()
    row = dict.fromkeys((status.value for status in Status), 0)
    measured.queues([{**row, "type": "t", "oldest_age": None, "workers": 0, "paused": False}])
    assert read("task.requeues") == dict.fromkeys((("t", cause) for cause in CAUSES), 0)


async def test_a_task_that_somebody_waits_for_counts_as_begun(
    serve: Serve, database_url: str, read: Read
) -> None:
    tasks, kind = await serve_measured(serve, database_url), new_type()
    waiting = asyncio.ensure_future(tasks.claim(kind, wait=20.0))
    for _ in range(3):  # the claim is there before the task: three calls later at the latest
        await tasks.stub.ListQueues(pb.ListQueuesRequest())
    await tasks.create(kind)
    assert len((await waiting).tasks) == 1
    assert (read("task.created"), read("task.claims")) == ({(kind,): 1}, {(kind,): 1})
    await tasks.close()


async def test_runs_that_the_server_takes_back_are_counted_by_why(
    serve: Serve, database_url: str, read: Read
) -> None:
    tasks = await serve_measured(serve, database_url, lease_seconds=0.5, sweep_interval_seconds=0.2)
    kind = new_type()
    await tasks.create(kind)
    await tasks.claim_one(kind)
    await eventually(lambda: read("task.requeues").get((kind, "stale")) == 1)
    await tasks.close()


async def test_each_late_write_is_counted_by_its_kind(serve: Serve, database_url: str, read: Read) -> None:
    tasks, kind = await serve_measured(serve, database_url), new_type()
    assert read("task.fenced_writes") == {("beat",): 0, ("finish",): 0, ("urls",): 0}
    await tasks.create(kind)
    task = await tasks.claim_one(kind)
    await tasks.finish(released(task))
    assert await tasks.finish(completed(task)) == ["LEASE_LOST"]
    await tasks.claim(kind, finish=[completed(task)])
    assert [lease_name(result) for result in await tasks.beat((task, None))] == ["LEASE_LOST"]
    with pytest.raises(grpc.aio.AioRpcError):
        await tasks.stub.UpdateTaskUrls(
            pb.UpdateTaskUrlsRequest(task_id=task.id, version=task.version, clips_url="x")
        )
    assert read("task.fenced_writes") == {("beat",): 1, ("finish",): 2, ("urls",): 1}
    [(method, _)] = [key for key in read("rpc.server.refusals") if key[1] == "LEASE_LOST"]
    assert method.endswith("/UpdateTaskUrls")
    await tasks.close()


async def test_depth_age_workers_and_pause_of_a_queue_are_told(
    serve: Serve, database_url: str, read: Read
) -> None:
    kind = new_type()
    before = await serve_measured(serve, database_url)
    for _ in range(3):
        await before.create(kind)
    await before.claim_one(kind)
    request = pb.SetQueuePolicyRequest(type=kind)
    request.policy.paused = True
    request.update_mask.paths.append("paused")
    await before.stub.SetQueuePolicy(request)
    # Another server of the same database: it looks when it starts.
    other = await serve_measured(serve, database_url)
    await eventually(lambda: (kind,) in read("task.queue.paused"))
    depth = {status: n for (of, status), n in read("task.queue.depth").items() if of == kind}
    assert depth == {"pending": 2, "processing": 1, "completed": 0, "failed": 0, "cancelled": 0}
    assert read("task.queue.paused")[kind,] == 1
    assert read("task.queue.oldest_pending_age")[kind,] > 0
    await before.close()
    await other.close()


def test_creators_cant_make_series_without_end(read: Read) -> None:
    measured = TaskMetrics()
    for number in range(1_000):
        measured.created([{"type": f"t{number}", "status": "pending"}])  # type: ignore[list-item]
    counted = read("task.created")
    assert len(counted) == MOST_TYPES + 1
    assert counted["other",] == 1_000 - MOST_TYPES
