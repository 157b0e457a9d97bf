"""A concurrency limit under races over three servers; `make soak` runs ten thousand of them."""

from __future__ import annotations

from contextlib import AsyncExitStack

from tests.conftest import Serve
from tests.integration.task.service import Tasks, serve_task
from tests.soak.task.limits import LimitRaces


async def test_a_limit_is_never_exceeded_and_no_call_waits_for_a_deadlock(
    serve: Serve, database_url: str
) -> None:
    async with AsyncExitStack() as stack:
        servers = [Tasks(await serve_task(serve, database_url)) for _ in range(3)]
        for server in servers:
            stack.push_async_callback(server.close)
        races = LimitRaces(servers, limits=[2, 3], seed=1)
        await races.run(100)
        await races.no_room_is_lost()
    print(races.claimed, races.most, races.slowest_seconds)
    assert races.claimed > 100
    assert set(races.most.values()) == {2, 3}
