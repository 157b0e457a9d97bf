"""A lane's connection: what breaks it is told as the database's trouble, and the next transaction works."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from libs.common.db import is_transient
from libs.common.lane import Lane
from libs.common.lanes import Lanes
from libs.common.settings import DatabaseSettings
from libs.common.testing import eventually


async def test_a_statement_beyond_the_time_limit_is_transient_and_costs_the_connection_alone(
    database_url: str,
) -> None:
    lane = Lane(DatabaseSettings(url=database_url, command_timeout_seconds=0.2), "test")
    with pytest.raises(Exception, match="connection was lost") as caught:
        async with lane.transaction() as connection:
            await connection.execute("SELECT pg_sleep(30)")
    assert is_transient(caught.value)
    async with lane.transaction() as connection:
        assert await connection.fetchval("SELECT 1") == 1
    await lane.close()


async def test_what_opens_a_transaction_goes_with_its_begin_and_what_comes_next_sees_what_it_waited_for(
    database_url: str,
) -> None:
    lanes = Lanes(DatabaseSettings(url=database_url), "test", count=2)
    async with lanes.statements() as connection:
        await connection.execute("CREATE TABLE opened (n int)")

    async def second() -> int:
        async with lanes.transaction("SELECT pg_advisory_xact_lock(7)") as connection:
            return int(await connection.fetchval("SELECT count(*) FROM opened"))

    async with lanes.transaction("SELECT pg_advisory_xact_lock(7)") as connection:
        waiting = asyncio.create_task(second())
        await connection.execute("INSERT INTO opened VALUES (1)")
    assert await waiting == 1
    await lanes.close()


async def test_an_opening_that_fails_is_rolled_back_and_the_connection_stays(database_url: str) -> None:
    lane = Lane(DatabaseSettings(url=database_url), "test")
    async with lane.statements() as connection:
        pid = connection.get_server_pid()
    with pytest.raises(asyncpg.DivisionByZeroError):
        async with lane.transaction("SELECT 1 / 0"):
            pass
    async with lane.transaction() as connection:
        assert connection.get_server_pid() == pid
        assert await connection.fetchval("SELECT 1") == 1
    await lane.close()


async def test_who_finds_all_lanes_taken_waits_so_long_and_is_told_to_come_again(database_url: str) -> None:
    lanes = Lanes(DatabaseSettings(url=database_url, pool_timeout_seconds=0.1), "test", count=1)
    async with lanes.statements():
        with pytest.raises(asyncpg.TooManyConnectionsError) as caught:
            async with lanes.statements():
                pass
    assert is_transient(caught.value)
    async with lanes.statements() as connection:
        assert await connection.fetchval("SELECT 1") == 1
    await lanes.close()


async def test_connections_that_only_a_burst_needed_are_closed_and_opened_again(database_url: str) -> None:
    lanes = Lanes(DatabaseSettings(url=database_url), "burst", count=3)
    together = asyncio.Barrier(3)

    async def one_of_many() -> None:
        async with lanes.statements():
            await together.wait()

    async def one() -> int:
        async with lanes.statements() as connection:
            opened = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'burst'"
            return int(await connection.fetchval(opened))

    async def only_one() -> bool:
        return await one() == 1

    async def burst() -> None:
        await asyncio.gather(*(one_of_many() for _ in range(3)))

    await burst()
    await lanes.close_unused()
    assert await one() == 3
    await lanes.close_unused()
    await eventually(only_one)
    await burst()
    assert await one() == 3
    await lanes.close()
