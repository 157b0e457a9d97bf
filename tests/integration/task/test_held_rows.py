"""Somebody holds a task's row, a person in psql for example: that costs no other task anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg
import grpc.aio
import pytest

from libs.common.client import error_info
from libs.common.lane import Connection, Lane
from libs.common.settings import DatabaseSettings
from libs.common.testing import eventually
from services.task.mount import LANE_SETTINGS
from services.task.repository_beat import Beat, beat
from tests.integration.task.service import Tasks, completed, lease_name, new_type, status_name

LEASE_SECONDS = 60


BEATS_THAT_WAIT = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
    AND application_name LIKE 'frontrow-task-beat%'
"""


@asynccontextmanager
async def connected(database_url: str) -> AsyncIterator[Connection]:
    """Give a connection beside those of the server."""
    connection = await asyncpg.connect(database_url)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def held(database_url: str, task_id: str) -> AsyncIterator[None]:
    """Hold the row of a task."""
    async with connected(database_url) as connection, connection.transaction():
        await connection.execute("SELECT FROM task.tasks WHERE id = $1 FOR UPDATE", task_id)
        yield


async def test_every_other_lease_of_a_beat_is_renewed(tasks: Tasks, database_url: str) -> None:
    kind = new_type()
    runs = []
    for _ in range(3):
        await tasks.create(kind)
        runs.append(await tasks.claim_one(kind))
    before = [await tasks.get(run.id) for run in runs]
    async with held(database_url, runs[1].id):
        renewed = await tasks.beat(*((run, 30) for run in runs))
        assert [lease_name(lease) for lease in renewed] == ["RENEWED"] * 3
        assert renewed[1].lease_expire_time == before[1].lease_expire_time
    after = [await tasks.get(run.id) for run in runs]
    assert [task.progress for task in after] == [30, 0, 30]
    beaten = [
        task.heartbeat_time.ToDatetime() > seen.heartbeat_time.ToDatetime()
        for task, seen in zip(after, before, strict=True)
    ]
    assert beaten == [True, False, True]
    [lease] = await tasks.beat((runs[1], 30))
    assert lease.lease_expire_time.ToDatetime() > before[1].lease_expire_time.ToDatetime()


async def test_a_beat_that_names_no_held_row_is_answered_while_another_waits_for_one(
    tasks: Tasks, database_url: str
) -> None:
    kind = new_type()
    for _ in range(2):
        await tasks.create(kind)
    stuck, other = (await tasks.claim(kind, 2)).tasks
    async with connected(database_url) as connection, held(database_url, stuck.id):
        waiting = asyncio.ensure_future(tasks.beat((stuck, 30)))
        await eventually(lambda: connection.fetchval(BEATS_THAT_WAIT))
        [lease] = await tasks.beat((other, 30), worker="w2")
        assert lease_name(lease) == "RENEWED"
        assert not waiting.done()
    [lease] = await waiting
    assert lease_name(lease) == "RENEWED"


async def test_claims_and_other_finishes_go_on_and_the_one_in_question_may_be_repeated(
    tasks: Tasks, database_url: str
) -> None:
    kind = new_type()
    for _ in range(4):
        await tasks.create(kind)
    stuck, other = (await tasks.claim(kind, 2)).tasks
    async with held(database_url, stuck.id):
        finishing = asyncio.ensure_future(tasks.finish(completed(stuck)))
        await asyncio.sleep(0)
        assert await tasks.finish(completed(other)) == ["APPLIED"]
        assert len((await tasks.claim(kind, 2)).tasks) == 2
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await finishing
        assert error_info(refused.value).reason == "DATABASE_UNAVAILABLE"
    assert await tasks.finish(completed(stuck)) == ["APPLIED"]


async def test_a_server_that_falls_silent_in_the_middle_of_a_beat_costs_no_lease(
    tasks: Tasks, database_url: str
) -> None:
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    silent = Lane(DatabaseSettings(url=database_url), "silent", **LANE_SETTINGS)

    async def renewed() -> bool:
        [lease] = await tasks.beat((run, None))
        return lease.lease_expire_time.ToDatetime() > run.lease_expire_time.ToDatetime()

    async def fall_silent() -> None:
        async with silent.transaction() as connection:
            await beat(connection, [Beat(UUID(run.id), run.version, None)])
            await eventually(renewed, LEASE_SECONDS / 3)

    with pytest.raises(asyncpg.PostgresError):
        await fall_silent()
    await silent.close()


async def test_a_policy_that_somebody_holds_fails_no_beat_and_puts_off_what_is_given_back(
    tasks: Tasks, database_url: str
) -> None:
    kind = new_type()
    for _ in range(2):
        await tasks.create(kind)
    named, absent = (await tasks.claim(kind, 2)).tasks
    person = await asyncpg.connect(database_url)
    await person.execute("INSERT INTO task.queue_policies (type) VALUES ($1)", kind)
    await person.execute(
        "UPDATE task.tasks SET started_at = now() - interval '1 minute' WHERE id = $1", absent.id
    )
    async with person.transaction():
        await person.execute("SELECT FROM task.queue_policies WHERE type = $1 FOR UPDATE", kind)
        for _ in range(2):
            [lease] = await tasks.beat((named, None))
            assert lease_name(lease) == "RENEWED"
        assert status_name(await tasks.get(absent.id)) == "PROCESSING"
    await person.close()
    await tasks.beat((named, None))
    assert status_name(await tasks.get(absent.id)) == "PENDING"
