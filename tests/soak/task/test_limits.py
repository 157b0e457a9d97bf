"""A concurrency limit in 10,000 random races over three server instances."""

from __future__ import annotations

from collections.abc import Callable

import asyncpg
import pytest

from tests.conftest import Serve
from tests.integration.task.service import Tasks, serve_task
from tests.soak.task.limits import LimitRaces

RACES = 10_000


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("limits", [[1, 4], [3]])
async def test_a_limit_is_never_exceeded(
    serve: Serve, database_url: str, share: float, tell: Callable[[object], None], limits: list[int]
) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("DELETE FROM task.queue_policies")  # one policy is another way than several
    await connection.close()
    servers = [Tasks(await serve_task(serve, database_url)) for _ in range(3)]
    races = LimitRaces(servers, limits=limits, seed=2)
    await races.run(round(RACES * share))
    await races.no_room_is_lost()
    tell(f"{races.claimed} claims, {dict(races.most)} at once, slowest {races.slowest_seconds:.3f} s")
    assert set(races.most.values()) == set(limits)
    for server in servers:
        await server.close()
