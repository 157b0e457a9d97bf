"""A server whose beats the database doesn't take calls nobody lost, though its sweep reaches the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import grpc.aio
import pytest

from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.task.service import Tasks, lease_name, new_type, serve_task

LEASE_SECONDS = 2.0
BEAT_CONNECTION = "frontrow-task-beat"


@asynccontextmanager
async def no_beats(database_url: str) -> AsyncIterator[None]:
    """End the connection that beats use and let in nobody new; all other connections stay."""
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
        yield
    finally:
        await connection.execute(admit, name, True)
        await connection.close()


async def test_a_run_whose_beats_are_not_taken_stays_with_its_worker(serve: Serve, database_url: str) -> None:
    settings = {"lease_seconds": LEASE_SECONDS, "sweep_interval_seconds": 0.2}
    tasks = Tasks(await serve_task(serve, database_url, **settings))
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    for _ in range(6):  # after that it has listened for a lease, and sweeps
        [lease] = await tasks.beat((run, None))
        await asyncio.sleep(LEASE_SECONDS / 4)
    async with no_beats(database_url):
        for _ in range(8):
            with pytest.raises(grpc.aio.AioRpcError):
                await tasks.beat((run, None))
            await asyncio.sleep(LEASE_SECONDS / 4)
    [lease] = await tasks.beat((run, None))
    assert lease_name(lease) == "RENEWED"
    await tasks.close()


async def test_who_is_silent_is_lost_once_beats_are_taken_again(serve: Serve, database_url: str) -> None:
    settings = {"lease_seconds": LEASE_SECONDS, "sweep_interval_seconds": 0.2}
    tasks = Tasks(await serve_task(serve, database_url, **settings))
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    async with no_beats(database_url):
        with pytest.raises(grpc.aio.AioRpcError):
            await tasks.beat((run, None))

    async def lost() -> bool:
        return (await tasks.get(run.id)).status_reason == "STALE"

    await eventually(lost, 20)
    await tasks.close()
