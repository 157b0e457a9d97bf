"""A lane's connection: what breaks it is told as the database's trouble, and the next transaction works."""

from __future__ import annotations

import pytest

from libs.common.db import is_transient
from libs.common.lane import Lane
from libs.common.settings import DatabaseSettings


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
