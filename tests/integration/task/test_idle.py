"""What waiting costs the database, and why a claim came back empty."""

from __future__ import annotations

import asyncio

import pytest
from frontrow.task.v1 import work_pb2

from libs.common.db import Database
from services.task import idle
from services.task.idle import IdleReasons
from tests.conftest import Serve
from tests.integration.task.service import Tasks, new_type, released, serve_task


async def test_a_whole_fleet_whose_waits_end_at_once_asks_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "DOUBTFUL_SECONDS", 60.0)
    asked = 0

    class Counting(IdleReasons):
        async def _ask(self, types):  # type: ignore[no-untyped-def]
            nonlocal asked
            asked += 1
            return await super()._ask(types)

    reasons = Counting(database)
    types = (new_type(),)
    assert set(await asyncio.gather(*(reasons.of(types) for _ in range(500)))) == {"empty"}
    assert asked == 1
    reasons.doubt()
    assert await reasons.of(types) == "empty"
    assert asked == 1
    reasons.forget()
    assert await reasons.of(types) == "empty"
    assert asked == 2


async def test_a_caller_that_goes_away_leaves_the_answer_to_the_others(database: Database) -> None:
    reasons = IdleReasons(database)
    types = (new_type(),)
    first = asyncio.ensure_future(reasons.of(types))
    second = asyncio.ensure_future(reasons.of(types))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "empty"


async def test_who_joins_a_quiet_wait_is_served_all_the_same(serve: Serve, database_url: str) -> None:
    tasks = Tasks(await serve_task(serve, database_url, poll_seconds=600))
    task_type = new_type()
    waits = [asyncio.ensure_future(tasks.claim(task_type, wait=20.0, worker=f"w{n}")) for n in range(3)]
    late = await tasks.claim(task_type, wait=0.3, worker="late")
    assert late.idle_reason == work_pb2.IDLE_REASON_EMPTY
    waits.append(asyncio.ensure_future(tasks.claim(task_type, wait=20.0, worker="w3")))
    made = [await tasks.create(task_type) for _ in range(4)]
    claimed = [task.id for answer in await asyncio.gather(*waits) for task in answer.tasks]
    assert sorted(claimed) == sorted(task.id for task in made)
    await tasks.close()


async def test_a_delayed_task_is_due_in_time_after_a_quiet_while(serve: Serve, database_url: str) -> None:
    quiet = {"due_interval_seconds": 0.2, "poll_seconds": 600}
    first, second = [Tasks(await serve_task(serve, database_url, **quiet)) for _ in range(2)]
    task_type = new_type()
    assert not (await second.claim(task_type, wait=0.5)).tasks
    task = await first.create(task_type)
    [claimed] = (await first.claim(task_type)).tasks
    assert await first.finish(released(claimed, 1.0)) == ["REQUEUED"]
    answer = await second.claim(task_type, wait=10.0)
    assert [again.id for again in answer.tasks] == [task.id]
    await first.close()
    await second.close()
