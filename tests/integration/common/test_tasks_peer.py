"""Typed calls to the task service, over a real server."""

from collections.abc import AsyncIterator
from contextlib import aclosing

import grpc.aio
import pytest
from frontrow.task.v1 import task_pb2, task_service_pb2

from libs.common.client import connect
from libs.common.ids import uuid7
from libs.common.tasks import TaskPeer, TaskView
from libs.common.testing import eventually, serving
from tests.integration.common.task_server import CANCELLED, FAILED, PENDING, PROCESSING, MemoryTasks


@pytest.fixture
def tasks() -> MemoryTasks:
    return MemoryTasks()


@pytest.fixture
async def peer(tasks: MemoryTasks) -> AsyncIterator[TaskPeer]:
    async with serving("task", tasks.mounted()) as address, connect(address) as channel:
        yield TaskPeer(channel)


def _create(task_id: str, subject: str = "material:1") -> bytes:
    request = task_service_pb2.CreateTaskRequest(task_id=task_id, type="asr", subject=subject)
    return request.SerializeToString()


def _cancel(task_id: str) -> bytes:
    return task_service_pb2.CancelTaskRequest(task_id=task_id).SerializeToString()


async def test_creating_twice_is_harmless_and_other_content_is_refused(
    peer: TaskPeer, tasks: MemoryTasks
) -> None:
    task_id = str(uuid7())
    await peer.create_sender(_create(task_id))
    await peer.create_sender(_create(task_id))
    assert list(tasks.tasks) == [task_id]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await peer.create_sender(_create(task_id, subject="material:2"))
    assert caught.value.code() == grpc.StatusCode.ALREADY_EXISTS


async def test_several_are_made_by_one_call_each_in_its_trace_or_none_is(
    peer: TaskPeer, tasks: MemoryTasks
) -> None:
    traces = {str(uuid7()): f"00-{number:032x}-00f067aa0ba902b7-01" for number in (1, 2)} | {str(uuid7()): ""}
    await peer.create_together([(_create(task_id), trace) for task_id, trace in traces.items()])
    assert {task_id: task.trace_parent for task_id, task in tasks.tasks.items()} == traces
    clashing = _create(next(iter(traces)), subject="material:2")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await peer.create_together([(_create(str(uuid7())), ""), (clashing, "")])
    assert caught.value.code() == grpc.StatusCode.ALREADY_EXISTS
    assert list(tasks.tasks) == list(traces)


async def test_cancelling_a_pending_task_cancels_it_and_an_ended_or_unknown_one_is_no_error(
    peer: TaskPeer, tasks: MemoryTasks
) -> None:
    task_id = str(uuid7())
    tasks.put(task_pb2.Task(id=task_id, status=PENDING))
    await peer.cancel_sender(_cancel(task_id))
    assert tasks.tasks[task_id].status == CANCELLED
    await peer.cancel_sender(_cancel(task_id))
    await peer.cancel_sender(_cancel(str(uuid7())))


async def test_a_malformed_request_is_refused_with_its_code(peer: TaskPeer) -> None:
    for send in (peer.create_sender(_create("no uuid")), peer.cancel_sender(_cancel("no uuid"))):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await send
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_statuses_are_asked_for_in_batches_and_missing_tasks_are_left_out(
    peer: TaskPeer, tasks: MemoryTasks
) -> None:
    ids = [str(uuid7()) for _ in range(201)]
    for task_id in ids[1:]:
        tasks.put(
            task_pb2.Task(
                id=task_id, status=FAILED, version=3, error_message="broken", status_reason="ABANDONED"
            )
        )
    views = await peer.statuses(ids)
    assert tasks.batches == [100, 100, 1]
    assert len(views) == 200
    assert views[0] == TaskView(ids[1], 3, "failed", "broken", "ABANDONED")
    assert await peer.statuses([]) == []
    assert tasks.batches == [100, 100, 1]


async def test_a_status_of_a_newer_release_is_an_empty_word(peer: TaskPeer, tasks: MemoryTasks) -> None:
    task_id = str(uuid7())
    task = task_pb2.Task(id=task_id, version=1)
    task.MergeFromString(b"\x18\x63")  # status = 99
    tasks.put(task)
    assert (await peer.statuses([task_id]))[0].status == ""


async def test_watching_yields_what_is_and_what_changes_and_leaving_ends_the_call(
    peer: TaskPeer, tasks: MemoryTasks
) -> None:
    task_id = str(uuid7())
    tasks.put(task_pb2.Task(id=task_id, status=PENDING))
    seen: list[TaskView] = []
    async with aclosing(peer.watch([task_id], types=["asr"])) as views:
        async for view in views:
            seen.append(view)
            if len(seen) == 2:
                break
            tasks.put(task_pb2.Task(id=task_id, status=PROCESSING, version=1))
    assert [(view.status, view.version) for view in seen] == [("pending", 0), ("processing", 1)]
    assert list(tasks.watches[0].types) == ["asr"]
    assert list(tasks.watches[0].task_ids) == [task_id]
    await eventually(lambda: tasks.watching == 0)
