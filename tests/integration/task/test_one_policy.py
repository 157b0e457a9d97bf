"""With a policy for exactly one type: the way of the single statements, and the one order of locks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import asyncpg
import pytest
from frontrow.task.v1 import task_pb2

from libs.common.lane import Connection
from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.task.service import Tasks, completed, new_type, serve_task
from tests.integration.task.test_queues import set_policy
from tests.soak.task.limits import LimitRaces

_KNOWN_BY = 77
_WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    """Give a connection to a database without any policy."""
    opened = await asyncpg.connect(database_url)
    await opened.execute("DELETE FROM task.queue_policies")
    yield opened
    await opened.close()


async def test_a_limit_is_never_exceeded_when_it_is_the_only_one(
    serve: Serve, database_url: str, connection: Connection
) -> None:
    async with AsyncExitStack() as stack:
        servers = [Tasks(await serve_task(serve, database_url)) for _ in range(3)]
        for server in servers:
            stack.push_async_callback(server.close)
        races = LimitRaces(servers, database_url, [3], seed=3, cuts=False)
        await races.run(600)
    assert races.claimed > 100
    assert races.most[3] == 3
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    assert await connection.fetchval(deadlocks) == 0, races.slowest_seconds


async def _finish(tasks: Tasks, run: task_pb2.Task) -> None:
    assert await tasks.finish(completed(run)) == ["APPLIED"]


async def _finish_and_claim(tasks: Tasks, run: task_pb2.Task) -> None:
    assert len((await tasks.claim(run.type, finish=[completed(run)])).finish_results) == 1


async def _fall_silent(tasks: Tasks, run: task_pb2.Task) -> None:
    await eventually(lambda: _is_taken_back(tasks, run))


async def _is_taken_back(tasks: Tasks, run: task_pb2.Task) -> bool:
    return (await tasks.get(run.id)).version > run.version


@pytest.mark.parametrize("end", [_finish, _finish_and_claim, _fall_silent])
async def test_whatever_ends_a_run_waits_for_the_policy_before_it_holds_the_task(
    serve: Serve,
    database_url: str,
    connection: Connection,
    end: Callable[[Tasks, task_pb2.Task], Awaitable[None]],
) -> None:
    # Elsewhere no sweep: it waits for the policy, too.
    settings = {"lease_seconds": 0.5, "sweep_interval_seconds": 0.1} if end is _fall_silent else {}
    tasks = Tasks(await serve_task(serve, database_url, **({"sweep_interval_seconds": 600} | settings)))
    kind = new_type()
    await set_policy(tasks, kind, concurrency_limit=5, max_attempts=_KNOWN_BY)

    async def knows_the_policy() -> bool:
        return (await tasks.create(kind)).max_attempts == _KNOWN_BY

    await eventually(knows_the_policy)
    run = await tasks.claim_one(kind)
    holder = await asyncpg.connect(database_url)
    async with holder.transaction():
        await holder.execute("SELECT FROM task.queue_policies FOR UPDATE")
        ending = asyncio.ensure_future(end(tasks, run))
        await eventually(lambda: connection.fetchval(_WAITING))
        # A give-back, which holds the policy, goes on to lock the task.
        await holder.execute("SELECT FROM task.tasks WHERE id = $1 FOR UPDATE NOWAIT", run.id)
    await ending
    await holder.close()
    await tasks.close()
