"""Concurrency limits under races over three servers; `make soak` makes tens of thousands of calls."""

from __future__ import annotations

from contextlib import AsyncExitStack

from tests.conftest import Serve
from tests.integration.task.service import Tasks, serve_task
from tests.soak.task.limits import LOST_CLAIM_SECONDS, LimitRaces


async def test_a_limit_is_never_exceeded_and_no_room_is_lost(serve: Serve, database_url: str) -> None:
    settings = {"lost_claim_seconds": LOST_CLAIM_SECONDS}
    async with AsyncExitStack() as stack:
        servers = [Tasks(await serve_task(serve, database_url, **settings)) for _ in range(3)]
        for server in servers:
            stack.push_async_callback(server.close)
        races = LimitRaces(servers, database_url, [2, 3], seed=1)
        await races.run(600)
    assert races.claimed > 100
    assert races.seen["looks"] > 20
    assert races.seen["policies"] > 3
