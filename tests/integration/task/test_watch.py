"""Watches: the present state first, then each change as the last of those that came together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pytest
from frontrow.task.v1 import task_pb2
from frontrow.task.v1 import task_service_pb2 as pb

from libs.common.client import error_info
from libs.common.testing import eventually
from tests.conftest import Serve
from tests.integration.task.service import Tasks, completed, new_type, released, serve_task, status_name


class Watch:
    """A stream's latest word on each task, and how many words came."""

    def __init__(self) -> None:
        self.latest: dict[str, task_pb2.Task] = {}
        self.count = 0

    def status(self, task_id: str) -> str:
        """Return the status last seen, empty when the task was never seen."""
        return status_name(self.latest[task_id]) if task_id in self.latest else ""


@asynccontextmanager
async def watching(tasks: Tasks, **fields: Any) -> AsyncIterator[Watch]:
    """Read a watch in the background."""
    watch = Watch()
    call = tasks.stub.WatchTasks(pb.WatchTasksRequest(**fields))

    async def read() -> None:
        async for response in call:
            assert not response.task.HasField("payload")
            watch.latest[response.task.id] = response.task
            watch.count += 1

    reading = asyncio.ensure_future(read())
    try:
        yield watch
    finally:
        call.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _sees(check: Callable[[], bool]) -> None:
    await eventually(check, 15)


async def test_a_watch_tells_the_present_state_and_then_each_change(tasks: Tasks) -> None:
    kind = new_type()
    old = await tasks.create(kind, payload={"a": 1})
    async with watching(tasks, types=[kind]) as watch:
        await _sees(lambda: watch.status(old.id) == "PENDING")
        new = await tasks.create(kind)
        await _sees(lambda: watch.status(new.id) == "PENDING")
        run = await tasks.claim_one(kind)
        await _sees(lambda: watch.status(run.id) == "PROCESSING")
        await tasks.beat((run, 42))
        await _sees(lambda: watch.latest[run.id].progress == 42)
        await tasks.finish(completed(run))
        await _sees(lambda: watch.status(run.id) == "COMPLETED")
        await tasks.cancel(new.id)
        await _sees(lambda: watch.status(new.id) == "CANCELLED")


async def test_finished_tasks_are_shown_at_first_only_when_named(tasks: Tasks) -> None:
    kind = new_type()
    done = await tasks.create(kind)
    await tasks.finish(completed(await tasks.claim_one(kind)))
    pending = await tasks.create(kind)
    async with watching(tasks, types=[kind]) as all_of_type, watching(tasks, task_ids=[done.id]) as named:
        await _sees(lambda: named.status(done.id) == "COMPLETED")
        await _sees(lambda: all_of_type.status(pending.id) == "PENDING")
        assert done.id not in all_of_type.latest
        assert pending.id not in named.latest


async def test_a_task_that_no_longer_matches_is_sent_once_more(tasks: Tasks) -> None:
    kind = new_type()
    made = await tasks.create(kind)
    async with watching(tasks, types=[kind], statuses=[task_pb2.TASK_STATUS_PENDING]) as watch:
        await _sees(lambda: watch.status(made.id) == "PENDING")
        run = await tasks.claim_one(kind)
        await _sees(lambda: watch.status(made.id) == "PROCESSING")
        count = watch.count
        await tasks.beat((run, 10))
        other = await tasks.create(kind)
        await _sees(lambda: watch.status(other.id) == "PENDING")
        assert watch.count == count + 1
        await tasks.finish(released(run))
        await _sees(lambda: watch.status(made.id) == "PENDING")


async def test_a_watch_for_what_happens_to_tasks_is_not_told_of_new_ones(tasks: Tasks) -> None:
    kind = new_type()
    old = [await tasks.create(kind) for _ in range(2)]
    async with watching(tasks, types=[kind], min_version=1) as watch, watching(tasks, types=[kind]) as all_:
        await _sees(lambda: set(all_.latest) == {task.id for task in old})
        new = [await tasks.create(kind) for _ in range(2)]
        await _sees(lambda: len(all_.latest) == 4)
        await tasks.cancel(old[0].id)
        await tasks.cancel(new[0].id)
        await _sees(lambda: set(watch.latest) == {old[0].id, new[0].id})
        assert {watch.status(task_id) for task_id in watch.latest} == {"CANCELLED"}
        run = await tasks.claim_one(kind)
        await _sees(lambda: watch.status(run.id) == "PROCESSING")
        await tasks.finish(released(run))
        await _sees(lambda: watch.status(run.id) == "PENDING")
        assert watch.count == len(watch.latest) + 1 == 4


async def test_many_changes_at_once_reach_a_watch_as_the_last_of_them(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)
    async with watching(tasks, task_ids=[run.id]) as watch:
        await _sees(lambda: run.id in watch.latest)
        for percent in range(1, 101):
            await tasks.beat((run, percent))
        await _sees(lambda: watch.latest[run.id].progress == 100)
        assert watch.count < 60


async def test_a_change_made_by_another_server_is_seen(serve: Serve, database_url: str, tasks: Tasks) -> None:
    kind = new_type()
    other = Tasks(await serve_task(serve, database_url))
    async with watching(other, types=[kind]) as watch:
        made = await tasks.create(kind)
        await _sees(lambda: watch.status(made.id) == "PENDING")
        await tasks.cancel(made.id)
        await _sees(lambda: watch.status(made.id) == "CANCELLED")
    await other.close()


async def test_a_watch_filters_by_keywords_and_subject(tasks: Tasks) -> None:
    kind = new_type()
    async with (
        watching(tasks, types=[kind], keywords="利率") as by_word,
        watching(tasks, types=[kind], subject="s:1") as by_subject,
    ):
        named = await tasks.create(kind, live_material_name="利率直播")
        about = await tasks.create(kind, subject="s:1")
        await _sees(lambda: named.id in by_word.latest and about.id in by_subject.latest)
        assert about.id not in by_word.latest
        assert named.id not in by_subject.latest


async def test_a_watch_ends_as_unavailable_when_its_server_stops(serve: Serve, database_url: str) -> None:
    from libs.common.context_server import ContextServer
    from services.task.mount import mount
    from services.task.settings import TaskSettings
    from tests.integration.task.service import common_settings

    server = ContextServer("task", "127.0.0.1:0", await mount(TaskSettings(), common_settings(database_url)))
    tasks = Tasks(await server.start())
    call = tasks.stub.WatchTasks(pb.WatchTasksRequest(types=[new_type()]))
    waiting = asyncio.ensure_future(tasks.claim(new_type(), wait=30))
    await tasks.create(new_type())
    await server.stop(5)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert error_info(caught.value).reason == "SERVER_STOPPING"
    assert len((await waiting).tasks) == 0
    await tasks.close()
