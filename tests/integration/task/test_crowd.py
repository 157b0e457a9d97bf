"""Calls that wait for work never take the place of those that renew leases and end runs."""

from __future__ import annotations

import asyncio

from frontrow.task.v1 import work_pb2

from libs.common.context_server import ContextServer
from libs.common.testing import eventually
from services.task.mount import mount
from services.task.settings import TaskSettings
from tests.integration.task.service import Tasks, common_settings, completed, lease_name, new_type


async def test_beats_and_finishes_are_served_while_as_many_workers_wait_as_may(database_url: str) -> None:
    mounted = await mount(TaskSettings(max_waiting_claims=5), common_settings(database_url))
    server = ContextServer("task", "127.0.0.1:0", mounted, max_concurrent_rpcs=2)
    tasks = Tasks(await server.start())
    kind, idle = new_type(), new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    waiting = [asyncio.ensure_future(tasks.claim(idle, worker=f"w{n}", wait=60)) for n in range(5)]
    await eventually(lambda: len(server.in_flight.methods) == 5)
    # One more finds no place to wait: it has looked, and is to ask again.
    async with asyncio.timeout(10):
        answer = await tasks.claim(idle, worker="late", wait=60)
    assert (len(answer.tasks), answer.idle_reason) == (0, work_pb2.IDLE_REASON_EMPTY)
    [lease] = await tasks.beat((run, 10))
    assert lease_name(lease) == "RENEWED"
    assert await tasks.finish(completed(run)) == ["APPLIED"]
    await tasks.create(idle)
    done, _ = await asyncio.wait(waiting, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    assert [len(call.result().tasks) for call in done] == [1]
    await server.stop(2)
    await tasks.close()
    await asyncio.gather(*waiting)
