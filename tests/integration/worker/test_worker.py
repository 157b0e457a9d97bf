"""The worker library against a real task server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from frontrow.worker import (
    Completed,
    Dial,
    Failed,
    Infrastructure,
    Outcome,
    Released,
    Run,
    TaskFailed,
    Worker,
)

from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.task.service import Tasks, new_type, serve_task, status_name

Handler = Callable[[Run], Awaitable[Outcome]]


@asynccontextmanager
async def working(address: str, kind: str, handler: Handler, **options: Any) -> AsyncIterator[Worker]:
    """Run a worker inside the block."""
    worker = Worker(target=address, types=[kind], handler=handler, **({"concurrency": 4} | options))
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop(grace_seconds=2)


async def _status(tasks: Tasks, task_id: str, wanted: str, timeout_seconds: float = 15) -> None:
    async def reached() -> bool:
        return status_name(await tasks.get(task_id)) == wanted

    await eventually(reached, timeout_seconds)


async def test_a_worker_runs_what_it_finds_and_what_comes_later_each_once(address: str, tasks: Tasks) -> None:
    kind = new_type()
    early = [(await tasks.create(kind, payload={"n": index})).id for index in range(15)]
    seen: list[tuple[str, float]] = []

    async def handle(run: Run) -> Outcome:
        seen.append((run.task_id, run.payload["n"]))
        return Completed({"double": run.payload["n"] * 2})

    async with working(address, kind, handle):
        await eventually(lambda: len(seen) == 15)
        late = [(await tasks.create(kind, payload={"n": index})).id for index in range(15, 20)]
        for index, task_id in enumerate(early + late):
            await _status(tasks, task_id, "COMPLETED")
            assert (await tasks.get(task_id)).ext["double"] == index * 2
    assert sorted(task_id for task_id, _ in seen) == sorted(early + late)


async def test_no_more_handlers_run_at_once_than_the_concurrency(address: str, tasks: Tasks) -> None:
    kind = new_type()
    running, most, done = 0, 0, 0

    async def handle(run: Run) -> Outcome:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.wait_for(asyncio.shield(_moment()), 5)
        running -= 1
        done += 1
        return Completed()

    for _ in range(20):
        await tasks.create(kind)
    async with working(address, kind, handle, concurrency=3):
        await eventually(lambda: done == 20)
    assert most == 3


def _hold_up(seconds: float) -> None:
    time.sleep(seconds)


async def _moment() -> None:
    await asyncio.to_thread(time.sleep, 0.01)


async def test_each_way_a_handler_ends_has_its_outcome(address: str, tasks: Tasks) -> None:
    kind = new_type()

    async def handle(run: Run) -> Outcome:
        way = run.payload["way"]
        if way == "returns failed":
            return Failed("by value")
        if way == "raises":
            raise TaskFailed("by exception")
        if way == "breaks":
            raise RuntimeError("a defect")
        if way == "releases":
            return Released(run_after_seconds=600)
        if way == "not json":
            return Completed({"when": object()})
        if way == "too large":
            return Completed({"text": "x" * 20_000})
        if way == "nul":
            return Completed({"text": "\0"})
        raise TaskFailed("later", retryable=True)

    ways = ["returns failed", "raises", "breaks", "releases", "not json", "too large", "nul", "retryable"]
    made = {way: (await tasks.create(kind, payload={"way": way}, max_attempts=2)).id for way in ways}
    async with working(address, kind, handle, concurrency=8):
        for way in ("returns failed", "raises", "not json", "too large", "nul"):
            await _status(tasks, made[way], "FAILED")
        for way in ("breaks", "retryable"):
            await eventually(lambda way=way: _attempt_failed(tasks, made[way]))  # type: ignore[misc]
        assert (await tasks.get(made["returns failed"])).error_message == "by value"
        assert (await tasks.get(made["raises"])).error_message == "by exception"
        assert "RuntimeError: a defect" in (await tasks.get(made["breaks"])).error_message
        assert "16384" in (await tasks.get(made["too large"])).error_message
        given_back = await tasks.get(made["releases"])
        assert (status_name(given_back), given_back.attempt, given_back.status_reason) == (
            "PENDING",
            0,
            "RELEASED",
        )


async def _attempt_failed(tasks: Tasks, task_id: str) -> bool:
    task = await tasks.get(task_id)
    return bool(task.error_message)


async def test_progress_reaches_the_task_early_and_only_rises(address: str, tasks: Tasks) -> None:
    kind = new_type()
    reported = asyncio.Event()

    async def handle(run: Run) -> Outcome:
        for percent in (10, 70, 40):
            run.progress(percent)
        await reported.wait()
        return Completed()

    made = await tasks.create(kind)
    async with working(address, kind, handle):

        async def seen() -> bool:
            return (await tasks.get(made.id)).progress == 70

        await eventually(seen, 8)
        reported.set()
        await _status(tasks, made.id, "COMPLETED")


async def test_a_lost_lease_cancels_the_handler_and_nothing_is_written(
    serve: Serve, database_url: str
) -> None:
    tasks = Tasks(await serve_task(serve, database_url, lease_seconds=1.5))
    kind = new_type()
    cancelled: list[Run] = []

    async def handle(run: Run) -> Outcome:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(run)
            raise
        return Completed()

    made = await tasks.create(kind, max_attempts=1)
    async with working(tasks.address, kind, handle):
        await _status(tasks, made.id, "PROCESSING")
        await eventually(lambda: _requeued(tasks, kind))
        await eventually(lambda: bool(cancelled))
    assert cancelled[0].lease_lost
    task = await tasks.get(made.id)
    assert (status_name(task), task.status_reason, task.version) == ("FAILED", "ABANDONED", 2)
    await tasks.close()


async def _requeued(tasks: Tasks, kind: str) -> bool:
    response = await tasks.requeue(kind, 0.01)
    return response.requeued + response.abandoned > 0


async def test_a_cancel_request_cancels_the_handler_and_the_task_ends_as_cancelled(
    serve: Serve, database_url: str
) -> None:
    tasks = Tasks(await serve_task(serve, database_url, lease_seconds=1.5))
    kind = new_type()
    runs: list[Run] = []

    async def handle(run: Run) -> Outcome:
        runs.append(run)
        await asyncio.Event().wait()
        return Completed()

    made = await tasks.create(kind)
    async with working(tasks.address, kind, handle):
        await _status(tasks, made.id, "PROCESSING")
        await tasks.cancel(made.id)
        await _status(tasks, made.id, "CANCELLED")
    assert runs[0].cancel_requested
    await tasks.close()


async def test_a_run_that_keeps_the_event_loop_busy_does_not_lose_its_lease(
    serve: Serve, database_url: str
) -> None:
    address = await serve_task(serve, database_url, lease_seconds=2, sweep_interval_seconds=0.2)
    tasks = Tasks(address)
    kind = new_type()
    made = await tasks.create(kind, payload={"n": 1})

    def busy_worker() -> None:
        async def handle(run: Run) -> Outcome:
            _hold_up(5)  # the loop of this worker stands still for more than two leases
            return Completed()

        async def work() -> None:
            async with working(address, kind, handle):
                await _status(Tasks(address), made.id, "COMPLETED", 30)

        asyncio.run(work())

    await asyncio.to_thread(busy_worker)
    task = await tasks.get(made.id)
    assert (task.attempt, task.version) == (1, 2)
    await tasks.close()


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
        await _status(tasks, made.id, "PROCESSING")
    stopping = asyncio.ensure_future(worker.stop(grace_seconds=4))
    await asyncio.wait({stopping}, timeout=0.3)
    short_may_end.set()
    await stopping
    assert status_name(await tasks.get(short.id)) == "COMPLETED"
    task = await tasks.get(long.id)
    assert (status_name(task), task.attempt, task.status_reason) == ("PENDING", 0, "RELEASED")


async def test_a_handler_that_finds_its_surroundings_down_releases_uncharged_and_the_worker_says_so(
    address: str, tasks: Tasks
) -> None:
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
        await _status(tasks, made.id, "COMPLETED", 60)
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
        await _status(tasks, made.id, "COMPLETED", 20)
    assert (await tasks.get(made.id)).attempt == 2


async def test_a_worker_outlives_a_restart_of_the_server_and_keeps_its_run(
    serve: Serve, database_url: str
) -> None:
    from libs.common.context_server import ContextServer
    from services.task.mount import mount
    from services.task.settings import TaskSettings
    from tests.integration.task.service import common_settings

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
        await _status(tasks, made.id, "PROCESSING")
        await tasks.close()
        await server.stop(1)
        go_on.set()
        server, _ = await start(address)
        tasks = Tasks(address)
        await _status(tasks, made.id, "COMPLETED", 30)
        later = await tasks.create(kind)
        await _status(tasks, later.id, "COMPLETED", 30)
    assert (await tasks.get(made.id)).version == 2
    await tasks.close()
    await server.stop(1)


async def test_a_worker_that_starts_before_its_server_gets_to_work_when_that_is_there(
    serve: Serve, database_url: str, tasks: Tasks
) -> None:
    from libs.common.context_server import ContextServer
    from services.task.mount import mount
    from services.task.settings import TaskSettings
    from tests.integration.task.service import common_settings

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
        await _status(tasks, made.id, "COMPLETED", 30)
        assert time.monotonic() - began < 6
    await server.stop(1)


async def test_bad_arguments_are_refused_at_once() -> None:
    async def handle(run: Run) -> Outcome:
        return Completed()

    with pytest.raises(ValueError, match="concurrency"):
        Worker(target="127.0.0.1:1", types=["x"], handler=handle, concurrency=0)
    with pytest.raises(ValueError, match="types"):
        Worker(target="127.0.0.1:1", types=[], handler=handle, concurrency=1)
    with pytest.raises(ValueError, match="plaintext"):
        Dial("tasks.example:7104").aio()
    with contextlib.closing(Dial("tasks.example:7104", plaintext=True).sync()):
        pass
