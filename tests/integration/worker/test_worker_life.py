"""A worker's life: stopping, surroundings that are down, servers that come and go."""

from __future__ import annotations

import asyncio
import time

import pytest
from frontrow.worker import Completed, Infrastructure, Outcome, Run, Worker

from libs.common.context_server import ContextServer
from libs.common.testing import eventually
from services.task.mount import mount
from services.task.settings import TaskSettings
from tests.integration.task.service import Tasks, common_settings, new_type, status_name
from tests.integration.worker.support import reaches, working


async def test_stopping_lets_a_short_run_end_and_gives_a_long_one_back(address: str, tasks: Tasks) -> None:
    kind = new_type()
    short_may_end = asyncio.Event()

    async def handle(run: Run) -> Outcome:
        await (short_may_end if run.payload["short"] else asyncio.Event()).wait()
        return Completed()

    short = await tasks.create(kind, payload={"short": True})
    long = await tasks.create(kind, payload={"short": False})
    worker = Worker(target=address, types=[kind], handler=handle, concurrency=2)
    await worker.start()
    for made in (short, long):
        await reaches(tasks, made.id, "PROCESSING")
    stopping = asyncio.ensure_future(worker.stop(grace_seconds=4))
    await asyncio.wait({stopping}, timeout=0.3)
    short_may_end.set()
    await stopping
    assert status_name(await tasks.get(short.id)) == "COMPLETED"
    task = await tasks.get(long.id)
    assert (status_name(task), task.attempt, task.status_reason) == ("PENDING", 0, "RELEASED")


async def test_a_handler_that_finds_its_surroundings_down_releases_uncharged_and_the_worker_says_so(
    address: str, tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontrow.worker.backoff.FIRST_SECONDS", 0.05)
    kind = new_type()
    down = True
    told: list[bool] = []

    async def handle(run: Run) -> Outcome:
        if down:
            raise Infrastructure("the store is out of reach")
        return Completed()

    made = await tasks.create(kind)
    async with working(address, kind, handle, on_serving=told.append) as worker:
        await eventually(lambda: told == [False], 30)
        assert not worker.serving
        down = False
        await reaches(tasks, made.id, "COMPLETED", 60)
        await eventually(lambda: told == [False, True])
    assert (await tasks.get(made.id)).attempt == 1


async def test_a_run_beyond_its_time_limit_fails_and_is_tried_again(address: str, tasks: Tasks) -> None:
    kind = new_type()

    async def handle(run: Run) -> Outcome:
        if run.attempt == 1:
            await asyncio.Event().wait()
        return Completed()

    made = await tasks.create(kind)
    async with working(address, kind, handle, run_timeout_seconds=0.3):
        await reaches(tasks, made.id, "COMPLETED", 20)
    assert (await tasks.get(made.id)).attempt == 2


async def test_a_worker_outlives_a_restart_of_the_server_and_keeps_its_run(database_url: str) -> None:

    async def start(address: str) -> tuple[ContextServer, str]:
        mounted = await mount(TaskSettings(lease_seconds=4), common_settings(database_url))
        server = ContextServer("task", address, mounted)
        return server, await server.start()

    server, address = await start("127.0.0.1:0")
    tasks = Tasks(address)
    kind = new_type()
    go_on = asyncio.Event()

    async def handle(run: Run) -> Outcome:
        await go_on.wait()
        return Completed()

    made = await tasks.create(kind)
    async with working(address, kind, handle):
        await reaches(tasks, made.id, "PROCESSING")
        await tasks.close()
        await server.stop(1)
        go_on.set()
        server, _ = await start(address)
        tasks = Tasks(address)
        await reaches(tasks, made.id, "COMPLETED", 30)
        later = await tasks.create(kind)
        await reaches(tasks, later.id, "COMPLETED", 30)
    assert (await tasks.get(made.id)).version == 2
    await tasks.close()
    await server.stop(1)


async def test_a_worker_that_starts_before_its_server_gets_to_work_when_that_is_there(
    database_url: str, tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontrow.worker.backoff.FIRST_SECONDS", 0.05)
    probe = ContextServer("task", "127.0.0.1:0", await mount(TaskSettings(), common_settings(database_url)))
    address = await probe.start()
    await probe.stop(0)
    kind = new_type()
    made = await tasks.create(kind)

    async def handle(run: Run) -> Outcome:
        return Completed()

    async with working(address, kind, handle) as worker:
        await eventually(lambda: not worker.serving, 30)
        server = ContextServer("task", address, await mount(TaskSettings(), common_settings(database_url)))
        await server.start()
        began = time.monotonic()
        await reaches(tasks, made.id, "COMPLETED", 30)
        assert time.monotonic() - began < 6
    await server.stop(1)


async def test_a_task_given_back_because_the_surroundings_are_down_does_not_wait_out_the_workers_own_pause(
    address: str, tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontrow.worker.backoff.FIRST_SECONDS", 30.0)
    kind = new_type()

    async def handle(run: Run) -> Outcome:
        if run.payload["down"]:
            raise Infrastructure("the store is down")
        await finish.wait()
        return Completed()

    finish = asyncio.Event()
    other = await tasks.create(kind, payload={"down": False})
    down = await tasks.create(kind, payload={"down": True})
    async with working(address, kind, handle, concurrency=2):
        await eventually(lambda: _given_back(tasks, down.id))
        finish.set()
        await reaches(tasks, other.id, "COMPLETED", 10)


async def _given_back(tasks: Tasks, task_id: str) -> bool:
    return (await tasks.get(task_id)).status_reason == "RELEASED"
