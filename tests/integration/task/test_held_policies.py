"""Somebody holds a policy, a person in psql for example: that puts off the sweep of its type alone."""

from __future__ import annotations

import asyncpg

from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.task.service import Tasks, new_type, serve_task, status_name
from tests.integration.task.test_queues import set_policy

LEASE_SECONDS = 1.0
KNOWN_BY = 77


async def test_lost_runs_of_every_other_type_are_taken_back(serve: Serve, database_url: str) -> None:
    settings = {"lease_seconds": LEASE_SECONDS, "sweep_interval_seconds": 0.2}
    tasks = Tasks(await serve_task(serve, database_url, **settings))
    held, limited, other = (new_type() for _ in range(3))
    for kind in (held, limited):
        await set_policy(tasks, kind, concurrency_limit=5, max_attempts=KNOWN_BY)

    async def knows_the_policies() -> bool:
        return (await tasks.create(limited)).max_attempts == KNOWN_BY

    await eventually(knows_the_policies)
    person = await asyncpg.connect(database_url)
    for kind in (held, other):
        await tasks.create(kind)
    runs = {kind: await tasks.claim_one(kind) for kind in (held, limited, other)}

    async def is_lost(*kinds: str) -> bool:
        return all([(await tasks.get(runs[kind].id)).status_reason == "STALE" for kind in kinds])

    async with person.transaction():
        await person.execute("SELECT FROM task.queue_policies WHERE type = $1 FOR UPDATE", held)
        await eventually(lambda: is_lost(limited, other), 20)
        # What runs now is lost once it was listened for in vain: a doubt at each sweep would put that off.
        runs[other] = await tasks.claim_one(other)
        await eventually(lambda: is_lost(other), 20)
        assert status_name(await tasks.get(runs[held].id)) == "PROCESSING"
    await person.close()
    await eventually(lambda: is_lost(held), 20)
    await tasks.close()
