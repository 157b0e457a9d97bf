"""A server whose beats the database doesn't take calls nobody lost, though its sweep reaches the database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import grpc.aio
import pytest
from frontrow.task.v1 import task_pb2

from libs.common.lane import Connection
from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.task.service import Tasks, lease_name, new_type, serve_task

LEASE_SECONDS = 2.0
BEAT_CONNECTION = "frontrow-task-beat"
SILENT = "SELECT heartbeat_at < now() - make_interval(secs => $2) FROM task.tasks WHERE id = $1"


@asynccontextmanager
async def no_beats(database_url: str) -> AsyncIterator[Connection]:
    """End the connection that beats use and let in nobody new; all others stay. Give one of those."""
    connection = await asyncpg.connect(database_url)
    name = await connection.fetchval("SELECT current_database()")
    admit = "UPDATE pg_database SET datallowconn = $2 WHERE datname = $1"
    await connection.execute(admit, name, False)
    try:
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = $1 AND datname = $2",
            BEAT_CONNECTION,
            name,
        )
        yield connection
    finally:
        await connection.execute(admit, name, True)
        await connection.close()


async def _claimed(serve: Serve, database_url: str) -> tuple[Tasks, task_pb2.Task]:
    """Return a client of a server with a short lease, and a run."""
    settings = {"lease_seconds": LEASE_SECONDS, "sweep_interval_seconds": 0.2}
    tasks = Tasks(await serve_task(serve, database_url, **settings))
    kind = new_type()
    await tasks.create(kind)
    return tasks, await tasks.claim_one(kind)


async def _is_lost(tasks: Tasks, run: task_pb2.Task) -> bool:
    return (await tasks.get(run.id)).status_reason == "STALE"


async def test_a_run_whose_beats_are_not_taken_stays_with_its_worker(serve: Serve, database_url: str) -> None:
    tasks, run = await _claimed(serve, database_url)
    await tasks.create(run.type)
    silent = await tasks.claim_one(run.type, worker="silent")

    async def sweeps() -> bool:
        [lease] = await tasks.beat((run, None))
        assert lease_name(lease) == "RENEWED"
        return await _is_lost(tasks, silent)

    await eventually(sweeps, 20)
    async with no_beats(database_url) as connection:

        async def is_silent_for_two_leases() -> bool:
            with pytest.raises(grpc.aio.AioRpcError):
                await tasks.beat((run, None))
            return await connection.fetchval(SILENT, run.id, LEASE_SECONDS * 2)

        await eventually(is_silent_for_two_leases, 20)
    [lease] = await tasks.beat((run, None))
    assert lease_name(lease) == "RENEWED"
    await tasks.close()


async def test_who_is_silent_is_lost_once_beats_are_taken_again(serve: Serve, database_url: str) -> None:
    tasks, run = await _claimed(serve, database_url)
    async with no_beats(database_url):
        with pytest.raises(grpc.aio.AioRpcError):
            await tasks.beat((run, None))
    await eventually(lambda: _is_lost(tasks, run), 20)
    await tasks.close()
