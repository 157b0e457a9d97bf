"""The watches of a server that hears of nothing: its own looks show every change all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from libs.common.db import Database
from libs.common.testing import eventually
from services.task.repository import TaskFilter
from services.task.watch import WatchHub
from tests.integration.task.service import Tasks, completed, new_type
from tests.statements import statements

# How a watch asks after those that it has sent as failed or cancelled.
_ENDED = "WHERE task.tasks.id IN"


async def _nothing() -> None:
    pass


@pytest.fixture
async def deaf(database: Database) -> WatchHub:
    """Give the watches of a server that hears of nothing: its own looks are all that it has."""
    return WatchHub(database, poll_seconds=0.4, listening=lambda: False)


@asynccontextmanager
async def _reading(
    hub: WatchHub, wanted: TaskFilter, on_added: Callable[[], Awaitable[None]] = _nothing
) -> AsyncIterator[list[tuple[str, int, str]]]:
    told: list[tuple[str, int, str]] = []

    async def read() -> None:
        async for row in hub.watch(wanted, on_added=on_added):
            told.extend([(str(row["id"]), row["version"], row["status"])])

    reading = asyncio.create_task(read())
    try:
        yield told
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _two_looks(tasks: Tasks, kind: str, *heard: list[tuple[str, int, str]]) -> None:
    """Wait until each deaf reader has looked at everything twice: nothing else shows it a new task."""
    for _ in range(2):
        new = (await tasks.create(kind)).id
        await eventually(lambda new=new: all((new, 0, "pending") in told for told in heard))


async def test_what_comes_and_goes_once_the_watch_is_open_is_shown(tasks: Tasks, deaf: WatchHub) -> None:
    kind = new_type()
    come: list[str] = []

    async def come_and_go() -> None:
        made = await tasks.create(kind)
        await tasks.cancel(made.id)
        deaf.changed([UUID(made.id)])
        come.append(made.id)

    async with _reading(deaf, TaskFilter(types=[kind]), on_added=come_and_go) as told:
        await eventually(lambda: bool(come) and (come[0], 1, "cancelled") in told)


async def test_what_comes_and_goes_before_a_look_at_everything_is_shown(
    tasks: Tasks, database: Database
) -> None:
    kind = new_type()
    looking = WatchHub(database, poll_seconds=0.0, listening=lambda: False)  # each look is one at everything
    async with _reading(looking, TaskFilter(types=[kind])) as told:
        first = await tasks.create(kind)
        await eventually(lambda: (first.id, 0, "pending") in told)
        made = await tasks.create(kind)
        await tasks.cancel(made.id)
        looking.changed([UUID(made.id)])
        await eventually(lambda: (made.id, 1, "cancelled") in told)


async def test_a_look_at_what_has_failed_walks_no_table(
    tasks: Tasks, deaf: WatchHub, database: Database
) -> None:
    kind = new_type()
    made = await tasks.create(kind)
    async with _reading(deaf, TaskFilter(types=[kind])) as told:
        await eventually(lambda: bool(told))
        await tasks.cancel(made.id)
        await eventually(lambda: (made.id, 1, "cancelled") in told)
        with statements(database) as seen:
            await eventually(lambda: sum(_ENDED in statement for statement, _ in seen) >= 2)
    asked = [statement for statement, _ in seen if "enable_seqscan" in statement or "task.tasks" in statement]
    ended = [at for at, statement in enumerate(asked) if _ENDED in statement]
    assert "enable_seqscan" in asked[ended[1] - 1]


async def test_what_finished_anew_between_two_looks_is_shown(tasks: Tasks, deaf: WatchHub) -> None:
    kind = new_type()
    made = await tasks.create(kind)
    async with _reading(deaf, TaskFilter(types=[kind])) as told:
        await eventually(lambda: (made.id, 0, "pending") in told)
        await tasks.cancel(made.id)
        await eventually(lambda: (made.id, 1, "cancelled") in told)
        await tasks.retry(made.id)
        again = await tasks.cancel(made.id)
        await eventually(lambda: (made.id, again.version, "cancelled") in told)


async def test_what_was_retried_and_completed_between_two_looks_is_shown_once(
    tasks: Tasks, deaf: WatchHub
) -> None:
    kind = new_type()
    made = await tasks.create(kind)
    failed = TaskFilter(types=[kind], statuses=["pending", "failed", "cancelled"])
    async with _reading(deaf, TaskFilter(types=[kind])) as told, _reading(deaf, failed) as told_of_failed:
        await eventually(lambda: len(told) == len(told_of_failed) == 1)
        await tasks.cancel(made.id)
        await eventually(lambda: len(told) == len(told_of_failed) == 2)
        await tasks.retry(made.id)
        await tasks.finish(completed(await tasks.claim_one(kind)))
        await eventually(lambda: told[-1][2] == told_of_failed[-1][2] == "completed")
        await _two_looks(tasks, kind, told, told_of_failed)
        of_it = [
            [status for task_id, _, status in heard if task_id == made.id] for heard in (told, told_of_failed)
        ]
        assert len(of_it[0]) <= 5
        assert [statuses.count("completed") for statuses in of_it] == [1, 1]


async def test_what_has_finished_is_not_told_again(tasks: Tasks, deaf: WatchHub) -> None:
    kind = new_type()
    first, second = await tasks.create(kind), await tasks.create(kind)
    async with _reading(deaf, TaskFilter(types=[kind])) as told:
        await eventually(lambda: len(told) == 2)
        await tasks.cancel(first.id)
        await eventually(lambda: (first.id, 1, "cancelled") in told)
        await _two_looks(tasks, kind, told)
        await tasks.cancel(second.id)
        await eventually(lambda: (second.id, 1, "cancelled") in told)
        assert sum(task_id in {first.id, second.id} for task_id, _, _ in told) == 4
