"""Creating tasks: once for each id, all or none, and every refusal by field (domain.md 1.13, 5)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import grpc.aio
import pytest
from frontrow.task.v1 import task_service_pb2 as pb
from frontrow.task.v1 import task_service_pb2_grpc
from google.protobuf import struct_pb2, timestamp_pb2
from google.protobuf.message import DecodeError

from libs.common.client import ErrorDetail, error_info
from libs.common.ids import uuid7
from tests.integration.task.service import Tasks, completed, new_type, status_name


async def _create(tasks: Tasks, **fields: Any) -> pb.CreateTaskResponse:
    return await tasks.stub.CreateTask(pb.CreateTaskRequest(**fields), timeout=20)


async def _refused(tasks: Tasks, **fields: Any) -> ErrorDetail:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _create(tasks, **fields)
    return error_info(caught.value)


async def test_a_new_task_is_pending_with_version_zero_and_its_payload(tasks: Tasks) -> None:
    kind = new_type()
    response = await _create(tasks, type=kind, payload={"名": ["a", 1.5, None, True]}, priority=3)
    task = response.task
    assert response.created
    assert (status_name(task), task.version, task.attempt, task.max_attempts, task.priority) == (
        "PENDING",
        0,
        0,
        5,
        3,
    )
    assert list(task.payload["名"]) == ["a", 1.5, None, True]
    assert await tasks.get(task.id) == task


@pytest.mark.parametrize("by", ["task_id", "request_id"])
async def test_the_same_id_again_answers_the_first_task_whatever_became_of_it(tasks: Tasks, by: str) -> None:
    kind = new_type()
    fields = {"type": kind, by: str(uuid7()), "payload": {"a": 1}}
    first = await _create(tasks, **fields)
    again = await _create(tasks, **fields)
    assert (first.created, again.created) == (True, False)
    assert again.task == first.task
    await tasks.finish(completed(await tasks.claim_one(kind)))
    later = await _create(tasks, **fields)
    assert (later.created, later.task.id, status_name(later.task)) == (False, first.task.id, "COMPLETED")


@pytest.mark.parametrize("by", ["task_id", "request_id"])
async def test_the_same_id_with_other_content_is_refused(tasks: Tasks, by: str) -> None:
    kind, known = new_type(), str(uuid7())
    first = await _create(tasks, type=kind, payload={"a": 1}, **{by: known})
    for change in ({"payload": {"a": 2}}, {"priority": 1}, {"subject": "x"}, {"type": new_type()}):
        error = await _refused(tasks, **({"type": kind, "payload": {"a": 1}, by: known} | change))
        assert (error.code, error.reason) == (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED")
        assert error.metadata["task_id"] == first.task.id


async def test_ids_that_belong_to_two_tasks_or_to_another_one_are_refused(tasks: Tasks) -> None:
    kind = new_type()
    one, two = str(uuid7()), str(uuid7())
    await _create(tasks, type=kind, task_id=one, request_id=f"r-{one}")
    await _create(tasks, type=kind, task_id=two)
    assert (
        await _refused(tasks, type=kind, task_id=two, request_id=f"r-{one}")
    ).reason == "REQUEST_ID_REUSED"
    assert (
        await _refused(tasks, type=kind, task_id=str(uuid7()), request_id=f"r-{one}")
    ).reason == "REQUEST_ID_REUSED"
    assert not (await _create(tasks, type=kind, task_id=one, request_id=f"r-{one}")).created


async def test_thirty_two_creations_at_once_under_one_id_make_one_task(tasks: Tasks) -> None:
    kind, known = new_type(), str(uuid7())
    answers = await asyncio.gather(*(_create(tasks, type=kind, task_id=known) for _ in range(32)))
    assert sum(answer.created for answer in answers) == 1
    assert {answer.task.id for answer in answers} == {known}
    assert len((await tasks.claim(kind, 50)).tasks) == 1


async def test_tasks_without_any_id_are_all_new(tasks: Tasks) -> None:
    kind = new_type()
    answers = await asyncio.gather(*(_create(tasks, type=kind) for _ in range(10)))
    assert len({answer.task.id for answer in answers}) == 10


async def test_a_batch_is_added_in_order_and_repeatable(tasks: Tasks) -> None:
    kind = new_type()
    request = pb.BatchCreateTasksRequest(
        requests=[
            pb.CreateTaskRequest(type=kind, request_id=f"{kind}{index}", payload={"n": index})
            for index in range(100)
        ]
    )
    first = await tasks.stub.BatchCreateTasks(request, timeout=20)
    again = await tasks.stub.BatchCreateTasks(request, timeout=20)
    assert list(first.tasks) == list(again.tasks)
    assert not any(task.HasField("payload") for task in first.tasks)
    claimed = (await tasks.claim(kind, 100)).tasks
    assert [task.payload["n"] for task in claimed] == list(range(100))


async def test_a_batch_with_one_clash_adds_nothing(tasks: Tasks) -> None:
    kind = new_type()
    await _create(tasks, type=kind, request_id=f"{kind}-taken", priority=1)
    request = pb.BatchCreateTasksRequest(
        requests=[
            pb.CreateTaskRequest(type=kind, request_id=f"{kind}-new"),
            pb.CreateTaskRequest(type=kind, request_id=f"{kind}-taken"),
        ]
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await tasks.stub.BatchCreateTasks(request, timeout=20)
    assert error_info(caught.value).reason == "REQUEST_ID_REUSED"
    assert (await _create(tasks, type=kind, request_id=f"{kind}-new")).created


async def test_a_batch_item_without_an_id_is_refused_by_its_place(tasks: Tasks) -> None:
    request = pb.BatchCreateTasksRequest(
        requests=[pb.CreateTaskRequest(type="x", request_id="a"), pb.CreateTaskRequest(type="x")]
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await tasks.stub.BatchCreateTasks(request, timeout=20)
    assert [violation.field for violation in error_info(caught.value).violations] == ["requests[1]"]


def _nested(levels: int, kinds: str = "ld") -> dict[str, Any]:
    """Return a payload whose lists (l) and objects (d), in turns, stand in one another so deep."""
    inner: Any = "here"
    for level in range(levels):
        inner = [inner] if kinds[level % len(kinds)] == "l" else {"k": inner}
    return {"k": inner}


def _groups(levels: int) -> struct_pb2.Struct:
    """Return a payload with fields unknown to it that stand in one another so deep."""
    payload = struct_pb2.Struct()
    payload.MergeFromString(b"\x7b" * levels + b"\x7c" * levels)
    return payload


@pytest.mark.parametrize(
    "nested",
    [lambda n: _nested(n, "l"), lambda n: _nested(n, "d"), _nested, _groups],
    ids=["lists", "objects", "both", "unknown fields"],
)
async def test_the_deepest_payload_that_is_taken_reaches_its_worker(
    tasks: Tasks, nested: Callable[[int], Any]
) -> None:
    kind = new_type()
    deep = await _deepest_taken(tasks, kind, nested)
    plain = await tasks.create(kind)
    assert [task.id for task in (await tasks.claim(kind, 2)).tasks] == [deep, plain.id]


async def _deepest_taken(tasks: Tasks, kind: str, nested: Callable[[int], Any]) -> str:
    """Create a task with the deepest payload that isn't refused; return its id."""
    task_id = str(uuid7())
    for levels in range(110, 0, -1):
        with contextlib.suppress(DecodeError):  # the request can't even be built
            request = pb.CreateTaskRequest(type=kind, task_id=task_id, payload=nested(levels))
            try:
                await tasks.stub.CreateTask(request, timeout=20)
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.INVALID_ARGUMENT:
                    return task_id  # it is there, though its answer can't be read
            else:
                return task_id
    raise AssertionError("no payload was taken")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "type"),
        ({"type": "Not A Type"}, "type"),
        ({"type": "x", "task_id": "seven"}, "task_id"),
        ({"type": "x", "priority": 1001}, "priority"),
        ({"type": "x", "max_attempts": -1}, "max_attempts"),
        ({"type": "x", "subject": "s" * 513}, "subject"),
        ({"type": "x", "live_material_name": "直" * 513}, "live_material_name"),
        ({"type": "x", "payload": {"a": "p" * 17_000}}, "payload"),
        ({"type": "x", "payload": {"a": {"b": ["nul\0"]}}}, "payload"),
        ({"type": "x", "payload": _nested(31)}, "payload"),
        ({"type": "x", "subject": "nul\0"}, "subject"),
        ({"type": "x", "run_after": timestamp_pb2.Timestamp(seconds=400_000_000_000)}, "run_after"),
    ],
)
async def test_a_creation_out_of_bounds_is_refused_by_field(
    tasks: Tasks, fields: dict[str, Any], field: str
) -> None:
    error = await _refused(tasks, **fields)
    assert error.code == grpc.StatusCode.INVALID_ARGUMENT
    assert error.violations[0].field.startswith(field)


async def test_a_refused_creation_does_not_fail_those_that_come_with_it(tasks: Tasks) -> None:
    kind = new_type()
    bad = [_create(tasks, type=kind, payload={"a": "\0"}) for _ in range(5)]
    good = [_create(tasks, type=kind, payload={"n": index}) for index in range(20)]
    answers = await asyncio.gather(*bad, *good, return_exceptions=True)
    assert sum(isinstance(answer, pb.CreateTaskResponse) for answer in answers) == 20
    assert len((await tasks.claim(kind, 50)).tasks) == 20


async def test_the_trace_of_the_creation_comes_with_the_task_to_its_worker(tasks: Tasks) -> None:
    kind, trace_id = new_type(), "4bf92f3577b34da6a3ce929d0e0e4736"
    request = pb.CreateTaskRequest(type=kind)
    metadata = (("traceparent", f"00-{trace_id}-00f067aa0ba902b7-01"),)
    # A channel of grpc alone: our own client would put its own trace there.
    async with grpc.aio.secure_channel(tasks.address, grpc.local_channel_credentials()) as channel:
        stub = task_service_pb2_grpc.TaskServiceStub(channel)
        await stub.CreateTask(request, metadata=metadata, timeout=20)
    assert (await tasks.claim_one(kind)).trace_parent.split("-")[1] == trace_id


async def test_the_tasks_of_a_batch_each_have_the_trace_that_led_to_them(tasks: Tasks) -> None:
    traces = [f"00-{1:032x}-00f067aa0ba902b7-01", "", f"00-{2:032x}-00f067aa0ba902b7-00"]
    requests = [pb.CreateTaskRequest(task_id=str(uuid7()), type=new_type()) for _ in traces]
    batch = pb.BatchCreateTasksRequest(requests=requests, trace_parents=traces)
    made = await tasks.stub.BatchCreateTasks(batch, timeout=20)
    assert [task.trace_parent for task in made.tasks] == traces
    # who asks again need not know the first one's trace
    again = await tasks.stub.CreateTask(requests[0], timeout=20)
    assert (again.created, again.task.trace_parent) == (False, traces[0])


@pytest.mark.parametrize(
    ("traces", "field"),
    [(["no trace", ""], "trace_parents[0]"), ([""], "trace_parents"), ([""] * 3, "trace_parents")],
)
async def test_traces_that_are_none_or_too_few_are_refused(
    tasks: Tasks, traces: list[str], field: str
) -> None:
    requests = [pb.CreateTaskRequest(task_id=str(uuid7()), type=new_type()) for _ in range(2)]
    batch = pb.BatchCreateTasksRequest(requests=requests, trace_parents=traces)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await tasks.stub.BatchCreateTasks(batch, timeout=20)
    assert [violation.field for violation in error_info(caught.value).violations] == [field]


async def test_an_unknown_task_is_not_found(tasks: Tasks) -> None:
    missing = str(uuid4())
    for call in (
        tasks.stub.GetTask(pb.GetTaskRequest(task_id=missing), timeout=20),
        tasks.stub.CancelTask(pb.CancelTaskRequest(task_id=missing), timeout=20),
        tasks.stub.RetryTask(pb.RetryTaskRequest(task_id=missing), timeout=20),
        tasks.stub.UpdateTaskUrls(pb.UpdateTaskUrlsRequest(task_id=missing, version=1), timeout=20),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        info = error_info(caught.value)
        assert (info.code, info.reason) == (grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND")
        assert info.metadata["task_id"] == missing
