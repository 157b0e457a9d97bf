"""The worker library against a real task server."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest
from frontrow.worker import (
    Completed,
    Dial,
    Failed,
    Outcome,
    Released,
    Run,
    TaskFailed,
    Worker,
)

from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.task.service import Tasks, new_type, serve_task, status_name
from tests.integration.worker.support import reaches, working


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
            await reaches(tasks, task_id, "COMPLETED")
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


async def _end_as_told(run: Run) -> Outcome:
    """End in the way that the task's payload names."""
    way = run.payload["way"]
    if way == "returns failed":
        return Failed("by value")
    if way == "raises":
        raise TaskFailed("by exception")
    if way == "breaks":
        raise RuntimeError("a defect")
    if way == "returns nothing":
        return None  # type: ignore[return-value]  # what an untyped handler may do
    if way == "releases":
        return Released(run_after_seconds=600)
    if way == "not json":
        return Completed({"when": object()})
    if way == "too large":
        return Completed({"text": "x" * 20_000})
    if way == "nul":
        return Completed({"text": "\0"})
    raise TaskFailed("later", retryable=True)


async def test_each_way_a_handler_ends_has_its_outcome(address: str, tasks: Tasks) -> None:
    kind = new_type()
    ways = ["returns failed", "raises", "breaks", "releases", "not json", "too large", "nul", "retryable"]
    ways.append("returns nothing")
    made = {way: (await tasks.create(kind, payload={"way": way}, max_attempts=2)).id for way in ways}
    async with working(address, kind, _end_as_told, concurrency=9):
        for way in ("returns failed", "raises", "not json", "too large", "nul"):
            await reaches(tasks, made[way], "FAILED")
        for way in ("breaks", "retryable", "returns nothing"):
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
        await reaches(tasks, made.id, "COMPLETED")


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
        await reaches(tasks, made.id, "PROCESSING")
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
        await reaches(tasks, made.id, "PROCESSING")
        await tasks.cancel(made.id)
        await reaches(tasks, made.id, "CANCELLED")
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
                await reaches(Tasks(address), made.id, "COMPLETED", 30)

        asyncio.run(work())

    await asyncio.to_thread(busy_worker)
    task = await tasks.get(made.id)
    assert (task.attempt, task.version) == (1, 2)
    await tasks.close()


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
