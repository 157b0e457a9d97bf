"""A claim is committed and its answer lost on the way from the database: nobody may wait on in silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import asyncpg
import grpc.aio
import pytest
from frontrow.task.v1 import task_service_pb2 as pb

from libs.common.client import error_info
from libs.common.lane import Connection
from libs.common.testing import eventually
from services.task import creations, flush
from tests.conftest import Serve
from tests.integration.task.service import Tasks, new_type, serve_task, status_name


@pytest.fixture
async def tasks(serve: Serve, database_url: str) -> AsyncIterator[Tasks]:
    """Give a client of a server that takes a claim for lost after 0.2 s."""
    client = Tasks(await serve_task(serve, database_url, poll_seconds=600, lost_claim_seconds=0.2))
    yield client
    await client.close()


async def _create_for_a_waiter(tasks: Tasks, kind: str, task_id: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError):
        await tasks.create(kind, task_id=task_id)


async def _create_for_the_queue(tasks: Tasks, kind: str, task_id: str) -> None:
    request = pb.BatchCreateTasksRequest(requests=[pb.CreateTaskRequest(task_id=task_id, type=kind)])
    await tasks.stub.BatchCreateTasks(request, timeout=20)


@pytest.mark.parametrize(
    ("module", "name", "make"),
    [(creations, "create", _create_for_a_waiter), (flush, "first_look", _create_for_the_queue)],
)
async def test_who_waits_is_told_and_the_task_goes_back_uncharged_after_two_beats(
    tasks: Tasks, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, make: Any
) -> None:
    kind, task_id = new_type(), str(uuid4())
    waiting = asyncio.ensure_future(tasks.claim(kind, wait=30))
    await tasks.claim(kind, wait=0.3, worker="quiet")  # by then the other has looked, too
    real = getattr(module, name)

    async def commit_and_cut(connection: Connection, *given: Any) -> None:
        await real(connection, *given)
        monkeypatch.undo()
        connection.terminate()
        raise asyncpg.ConnectionDoesNotExistError("cut behind the commit")

    monkeypatch.setattr(module, name, commit_and_cut)
    await make(tasks, kind, task_id)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        async with asyncio.timeout(5):
            await waiting
    info = error_info(refused.value)
    assert (info.code, info.reason) == (grpc.StatusCode.UNAVAILABLE, "DATABASE_UNAVAILABLE")
    assert status_name(await tasks.get(task_id)) == "PROCESSING"

    async def given_back() -> bool:
        await tasks.beat(worker="w1")
        return status_name(await tasks.get(task_id)) == "PENDING"

    await eventually(given_back)
    task = await tasks.get(task_id)
    assert (task.attempt, task.status_reason) == (0, "REPLY_LOST")
