"""The first policy of a type counts every run and stops nobody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import asyncpg
import grpc.aio
import pytest

from libs.common.client import error_info
from libs.common.db import Database
from libs.common.lane import Connection
from services.task import policies
from services.task.limits import TypeLimits
from services.task.loops.policies import PolicyWatch
from services.task.settings import TaskSettings
from tests.integration.task.service import Tasks, completed, lease_name, new_type
from tests.integration.task.test_queues import set_policy

_CLAIM_UNSEEN = """
UPDATE task.tasks SET status = 'processing', version = 1, attempts = 1, claimed_by = 'w', last_worker = 'w',
    started_at = now(), heartbeat_at = now(), progress_at = now() WHERE id = $1
"""


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    """Give a connection beside those of the server."""
    opened = await asyncpg.connect(database_url)
    yield opened
    await opened.close()


async def _running(connection: Connection, kind: str) -> int:
    return await connection.fetchval("SELECT running FROM task.queue_policies WHERE type = $1", kind)


async def test_it_neither_waits_for_a_vacuum_nor_lets_others_wait(
    tasks: Tasks, connection: Connection
) -> None:
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    async with connection.transaction():
        await connection.execute("LOCK TABLE task.tasks IN SHARE UPDATE EXCLUSIVE MODE")  # as a VACUUM does
        began = time.monotonic()
        setting = asyncio.ensure_future(set_policy(tasks, kind, concurrency_limit=3))
        [lease] = await tasks.beat((run, 10))
        assert lease_name(lease) == "RENEWED"
        await tasks.create(kind)
        assert (await setting).concurrency_limit == 3
        assert time.monotonic() - began < 2
    assert await _running(connection, kind) == 1


async def test_it_counts_a_claim_that_began_before_and_could_not_see_it(
    tasks: Tasks, connection: Connection
) -> None:
    kind = new_type()
    made = [await tasks.create(kind) for _ in range(4)]
    run = await tasks.claim_one(kind)
    async with connection.transaction():
        await connection.execute(_CLAIM_UNSEEN, made[1].id)
        setting = asyncio.ensure_future(set_policy(tasks, kind, concurrency_limit=3))
        await asyncio.sleep(0.2)
        # What begins after it is seen by it, and goes on.
        assert await tasks.finish(completed(run)) == ["APPLIED"]
        await tasks.claim_one(kind)
        assert not setting.done()
    await setting
    assert await _running(connection, kind) == 2
    assert len((await tasks.claim(kind, 5)).tasks) == 1


async def test_a_writer_that_never_ends_is_told_of_and_the_next_try_counts(
    tasks: Tasks, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "LONGEST_WAIT_SECONDS", 0.2)
    kind = new_type()
    made = [await tasks.create(kind) for _ in range(3)]
    async with connection.transaction():
        await connection.execute(_CLAIM_UNSEEN, made[0].id)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await set_policy(tasks, kind, concurrency_limit=1)
        info = error_info(refused.value)
        assert (info.code, info.reason) == (grpc.StatusCode.UNAVAILABLE, "QUEUE_BUSY")
        # Nothing of it holds yet.
        await tasks.claim_one(kind)
    await set_policy(tasks, kind, concurrency_limit=1)
    assert await _running(connection, kind) == 2
    assert (await tasks.claim(kind)).tasks == []


async def test_one_that_was_refused_and_never_repeated_leaves_no_row(
    tasks: Tasks,
    connection: Connection,
    database: Database,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policies, "LONGEST_WAIT_SECONDS", 0.0)
    watch = PolicyWatch(database, TypeLimits(TaskSettings()), lambda: None)
    kind = new_type()
    made = await tasks.create(kind)

    async def refused() -> None:
        with pytest.raises(grpc.aio.AioRpcError):
            await set_policy(tasks, kind, concurrency_limit=1)

    async def is_left_after(minutes: int) -> bool:
        earlier = "UPDATE task.queue_policies SET updated_at = updated_at - make_interval(mins => $2)"
        await connection.execute(f"{earlier} WHERE type = $1", kind, minutes)
        await watch.step()
        return bool(await connection.fetchval("SELECT true FROM task.queue_policies WHERE type = $1", kind))

    writer = await asyncpg.connect(database_url)
    async with writer.transaction():
        await writer.execute(_CLAIM_UNSEEN, made.id)
        await refused()
        assert await is_left_after(2)
        await refused()
        assert await is_left_after(2)
        assert not await is_left_after(2)
    await writer.close()
    await set_policy(tasks, kind, concurrency_limit=1)
    assert await is_left_after(60)
