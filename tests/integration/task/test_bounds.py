"""Lists and notices stay within what can be sent; a deleted task's id is free again, even in the middle."""

from __future__ import annotations

import asyncio
from typing import Any, cast
from uuid import UUID, uuid4

import grpc.aio
import pytest
from frontrow.task.v1 import task_service_pb2 as pb
from sqlalchemy import text

from libs.common.client import error_info
from libs.common.db import Database
from libs.common.lane import Connection, connect
from libs.common.paging import MAX_PAGE_BYTES
from libs.common.settings import DatabaseSettings
from services.task import statements_create
from services.task.repository_create import NewTask, create
from tests.conftest import Serve
from tests.integration.task.service import Tasks, new_type, serve_task


async def test_work_of_more_types_than_a_notice_holds_still_wakes_the_other_servers(
    serve: Serve, database_url: str
) -> None:
    maker, taker = [Tasks(await serve_task(serve, database_url, poll_seconds=600)) for _ in range(2)]
    kinds = [f"{new_type()}.{number:03}".ljust(64, "x") for number in range(100)]
    waiting = asyncio.ensure_future(taker.claim(kinds[57], wait=30))
    # Both listen once a first word has gone through.
    await asyncio.wait({waiting}, timeout=1)
    requests = [pb.CreateTaskRequest(type=kind, request_id=kind) for kind in kinds]
    await maker.stub.BatchCreateTasks(pb.BatchCreateTasksRequest(requests=requests), timeout=20)
    async with asyncio.timeout(10):
        [task] = (await waiting).tasks
    assert task.type == kinds[57]
    for tasks in (maker, taker):
        await tasks.close()


async def test_the_list_of_workers_stays_within_three_mebibytes(tasks: Tasks, database: Database) -> None:
    kind = new_type()
    async with database.begin() as session:
        await session.execute(
            text(
                "INSERT INTO task.workers (worker_id, types, first_seen_at, last_seen_at) "
                "SELECT :kind || n, array_prepend(:kind, array_fill(repeat('x', 64), ARRAY[90])), "
                "now(), now() "
                "FROM generate_series(1, 900) n"
            ),
            {"kind": kind},
        )
    request = pb.ListWorkersRequest(type=kind, page_size=1_000)
    response = await tasks.stub.ListWorkers(request, timeout=20)
    assert 300 < len(response.workers) < 900
    assert response.ByteSize() <= MAX_PAGE_BYTES + 10 * len(response.workers)
    request.page_token = response.next_page_token
    rest = await tasks.stub.ListWorkers(request, timeout=20)
    assert len(response.workers) + len(rest.workers) == 900


class _Meanwhile:
    """A connection; another one deletes a task before this one looks for what stands under its id."""

    def __init__(self, connection: Connection, other: Connection, task_id: UUID) -> None:
        self._connection, self._other, self._task_id = connection, other, task_id

    async def fetch(self, statement: str, *arguments: Any) -> Any:
        if statement == statements_create.EXISTING:
            await self._other.execute("DELETE FROM task.tasks WHERE id = $1", self._task_id)
        return await self._connection.fetch(statement, *arguments)


def _new(task_id: UUID) -> NewTask:
    return NewTask(task_id, True, "", new_type(), 0, b"", b"x", "", "", "", 5, None)


async def test_a_task_deleted_while_it_is_asked_for_again_is_created_anew(database_url: str) -> None:
    settings = DatabaseSettings(url=database_url)
    one, other = await connect(settings, "frontrow-test"), await connect(settings, "frontrow-test")
    kept, deleted = _new(uuid4()), _new(uuid4())
    await create(one, [kept, deleted])
    meanwhile = cast(Connection, _Meanwhile(one, other, deleted.task_id))
    again = await create(meanwhile, [kept, deleted])
    assert [(answer.row["id"], answer.new, answer.clash) for answer in again] == [
        (kept.task_id, False, False),
        (deleted.task_id, True, False),
    ]
    for connection in (one, other):
        await connection.close()


@pytest.mark.parametrize("kind", ["zz,asr", "", "Asr", "a" * 65, "a b"])
async def test_a_worker_takes_only_types_that_a_task_can_have(tasks: Tasks, kind: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await tasks.claim([kind], worker="w")
    info = error_info(refused.value)
    assert (info.code, info.violations[0].field) == (grpc.StatusCode.INVALID_ARGUMENT, "types[0]")
