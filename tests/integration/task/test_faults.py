"""Connections are cut and the schema changes under load; nothing is lost and nobody restarts anything."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import asyncpg
import grpc.aio
from frontrow.worker import Completed, Outcome, Run

from libs.common.client import error_info
from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.task.service import Tasks, completed, lease_name, new_type, serve_task, status_name
from tests.integration.worker.support import working

T = TypeVar("T")


async def _cut(database_url: str, pattern: str) -> int:
    """Terminate the backends of a database whose application name is like `pattern`; return how many."""
    connection = await asyncpg.connect(database_url)
    try:
        return await connection.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE $1 AND pid <> pg_backend_pid()",
            pattern,
        )
    finally:
        await connection.close()


async def test_work_arrives_within_the_poll_when_the_listener_is_dead(
    serve: Serve, database_url: str
) -> None:
    maker, taker = [Tasks(await serve_task(serve, database_url, poll_seconds=0.5)) for _ in range(2)]
    kind = new_type()
    waiting = asyncio.ensure_future(taker.claim(kind, wait=30))
    stop = asyncio.Event()

    async def keep_cutting() -> None:
        while not stop.is_set():
            await _cut(database_url, "frontrow-task-bulletin")

    cutting = asyncio.ensure_future(keep_cutting())
    made = await maker.create(kind)
    began = time.monotonic()
    assert [task.id for task in (await waiting).tasks] == [made.id]
    assert time.monotonic() - began < 5
    stop.set()
    await cutting
    for tasks in (maker, taker):
        await tasks.close()


async def test_signals_work_again_after_the_listener_was_cut(serve: Serve, database_url: str) -> None:
    maker, taker = [Tasks(await serve_task(serve, database_url, poll_seconds=600)) for _ in range(2)]
    assert await eventually(lambda: _cut(database_url, "frontrow-task-bulletin"))
    kind = new_type()
    waiting = asyncio.ensure_future(taker.claim(kind, wait=60))

    async def woken() -> bool:
        await maker.create(kind)
        await asyncio.wait({waiting}, timeout=0.3)
        return waiting.done()

    await eventually(woken, 20)
    for tasks in (maker, taker):
        await tasks.close()


async def test_every_call_works_again_after_all_connections_were_cut(serve: Serve, database_url: str) -> None:
    tasks = Tasks(await serve_task(serve, database_url))
    kind = new_type()
    for _ in range(3):
        await tasks.create(kind)
        run = await tasks.claim_one(kind)
        await tasks.beat((run, 10))
        assert await _cut(database_url, "frontrow-task%") >= 3
        [lease] = await _again(partial(tasks.beat, (run, 20)))
        assert lease_name(lease) == "RENEWED"
        assert await _again(partial(tasks.finish, completed(run))) == ["APPLIED"]
        assert status_name(await _again(partial(tasks.get, run.id))) == "COMPLETED"
    await tasks.close()


async def _again(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call as long as its server says that its database is away."""
    until = time.monotonic() + 10
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            if error_info(error).reason != "DATABASE_UNAVAILABLE" or time.monotonic() > until:
                raise


async def test_connections_that_are_cut_again_and_again_lose_and_double_nothing(
    serve: Serve, database_url: str
) -> None:
    settings = {"lease_seconds": 3, "sweep_interval_seconds": 0.3, "poll_seconds": 0.5}
    servers = [Tasks(await serve_task(serve, database_url, **settings)) for _ in range(2)]
    kind = new_type()
    made = [(await servers[0].create(kind)).id for _ in range(100)]
    effects: Counter[tuple[str, int]] = Counter()

    async def handle(run: Run) -> Outcome:
        effects[run.task_id, run.version] += 1
        await asyncio.to_thread(time.sleep, 0.02)
        return Completed()

    cuts = 0

    async def all_done() -> bool:
        nonlocal cuts
        # Each cut costs the workers a back-off, so there are only so many of them.
        if cuts < 8:
            cuts += 1
            await _cut(database_url, "frontrow-task%")
        connection = await asyncpg.connect(database_url)
        left = await connection.fetchval(
            "SELECT count(*) FROM task.tasks WHERE type = $1 AND status <> 'completed'", kind
        )
        await connection.close()
        return left == 0

    async with working(servers[0].address, kind, handle), working(servers[1].address, kind, handle):
        await eventually(all_done, 60)
    assert {task_id for task_id, _ in effects} == set(made)
    assert set(effects.values()) == {1}
    for tasks in servers:
        await tasks.close()


async def test_a_change_of_the_schema_under_load_loses_no_task(serve: Serve, database_url: str) -> None:
    tasks = Tasks(await serve_task(serve, database_url, lease_seconds=3, sweep_interval_seconds=0.3))
    kind = new_type()
    done = 0

    async def handle(run: Run) -> Outcome:
        nonlocal done
        done += 1
        return Completed()

    async with working(tasks.address, kind, handle):
        connection = await asyncpg.connect(database_url)
        for number in range(8):
            for _ in range(5):
                await _again(partial(tasks.create, kind))
            await connection.execute(f"ALTER TABLE task.tasks ADD COLUMN extra_{number} int")
        await connection.close()
        await eventually(lambda: done >= 40, 30)
    await tasks.close()
