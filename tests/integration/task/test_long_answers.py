"""No answer outgrows a message, whatever there is to tell (domain.md 5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import grpc.aio
import pytest
from frontrow.task.v1 import task_service_pb2 as pb

from libs.common.client import error_info
from libs.common.lane import Connection
from libs.common.paging import encode_token
from tests.integration.task.service import Tasks, new_type

LIMIT_BYTES = 4 * 1024 * 1024


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    """Give a connection beside those of the server."""
    opened = await asyncpg.connect(database_url)
    yield opened
    await opened.close()


async def test_many_tasks_with_long_texts_are_answered_in_several_calls(
    tasks: Tasks, connection: Connection
) -> None:
    ids = [uuid4() for _ in range(500)]
    await connection.execute(
        "INSERT INTO task.tasks (id, type, max_attempts, content_sha256, claim_order, status, version, "
        "completed_at, error_message, live_material_name) SELECT u, $2, 5, '', now(), 'failed', 2, now(), "
        "repeat('错', 4000), repeat('名', 512) FROM unnest($1::uuid[]) u",
        ids,
        new_type(),
    )
    wanted = [str(uuid4()), *map(str, ids[:250]), str(uuid4()), *map(str, ids[250:498])]
    left, told, calls = wanted, list[str](), 0
    while left:
        answer = await tasks.stub.BatchGetTasks(pb.BatchGetTasksRequest(task_ids=left), timeout=20)
        assert answer.ByteSize() < LIMIT_BYTES
        told += [task.id for task in answer.tasks]
        left = list(answer.remaining_task_ids)
        calls += 1
    assert told == [str(one) for one in ids[:498]]
    assert 1 < calls < 5
    answer = await tasks.stub.BatchGetTasks(pb.BatchGetTasksRequest(task_ids=wanted[:100]), timeout=20)
    assert (len(answer.tasks), list(answer.remaining_task_ids)) == (99, [])


async def test_of_very_many_runs_the_latest_are_shown_and_the_others_counted(
    tasks: Tasks, connection: Connection
) -> None:
    task = await tasks.create(new_type())
    await connection.execute(
        "INSERT INTO task.task_runs (task_id, version, worker_id, started_at, ended_at, ended_as, outcome) "
        "SELECT $1, n * 2 + 1, repeat('w', 200), now(), now(), 'released', 'requeued' "
        "FROM generate_series(1, 1234) n",
        UUID(task.id),
    )
    told = await tasks.stub.ExplainTask(pb.ExplainTaskRequest(task_id=task.id), timeout=20)
    versions = [run.version for run in told.runs]
    assert versions == sorted(versions)
    assert (len(versions), versions[-1], told.earlier_runs) == (500, 1234 * 2 + 1, 734)


async def test_queues_are_listed_in_pages(tasks: Tasks, connection: Connection) -> None:
    prefix = new_type()
    await connection.execute(
        "INSERT INTO task.queue_counts (type, pending) SELECT $1 || lpad(n::text, 3, '0'), n "
        "FROM generate_series(1, 25) n",
        prefix,
    )
    request, seen = pb.ListQueuesRequest(page_size=10), list[str]()
    while True:
        page = await tasks.stub.ListQueues(request, timeout=20)
        assert len(page.queues) <= 10
        seen += [queue.type for queue in page.queues]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert [one for one in seen if one.startswith(prefix)] == [f"{prefix}{n:03}" for n in range(1, 26)]
    assert len(set(seen)) == len(seen)


async def test_workers_are_listed_in_pages_though_they_are_heard_of_meanwhile(
    tasks: Tasks, connection: Connection
) -> None:
    kind = new_type()
    await connection.execute(
        "INSERT INTO task.workers (worker_id, types, first_seen_at) SELECT $1 || n, ARRAY[$1], "
        "now() - n / 2 * interval '1 s' FROM generate_series(1, 25) n",
        kind,
    )
    request, seen = pb.ListWorkersRequest(type=kind, page_size=10), list[str]()
    while True:
        page = await tasks.stub.ListWorkers(request, timeout=20)
        seen += [worker.worker_id for worker in page.workers]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
        await connection.execute("UPDATE task.workers SET last_seen_at = now() WHERE worker_id = $1", seen[0])
    assert sorted(seen) == sorted(f"{kind}{n}" for n in range(1, 26))


@pytest.mark.parametrize("position", [[], ["x", "y"], [7]])
async def test_a_token_that_fits_no_list_is_refused(tasks: Tasks, position: list[int | str]) -> None:
    request = pb.ListQueuesRequest()
    request.page_token = encode_token(position, request)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await tasks.stub.ListQueues(request, timeout=20)
    info = error_info(refused.value)
    assert (info.code, info.violations[0].field) == (grpc.StatusCode.INVALID_ARGUMENT, "page_token")
