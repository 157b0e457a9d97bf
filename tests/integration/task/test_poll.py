"""Work that nobody signalled is found by a look, which rides along with the sweep or comes by itself."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

import pytest

from libs.common.lane import Lane
from libs.common.settings import DatabaseSettings
from services.task.bulletin import Bulletin
from services.task.mount import mount
from services.task.repository_create import NewTask, create
from services.task.settings import TaskSettings
from tests.conftest import Serve
from tests.integration.task.service import Tasks, common_settings, new_type, serve_task


async def _create_in_silence(database_url: str, kind: str) -> str:
    """Add a task as a server would that dies before it can tell anybody."""
    lane = Lane(DatabaseSettings(url=database_url), "test")
    async with lane.transaction() as connection:
        [made] = await create(
            connection, [NewTask(uuid4(), False, "", kind, 0, b"", b"", "", "", "", 5, None)]
        )
    await lane.close()
    return str(made.row["id"])


@pytest.mark.parametrize(
    ("sweep_seconds", "poll_seconds"), [(0.2, 1.0), (600.0, 0.5)], ids=["with the sweep", "by itself"]
)
async def test_work_that_nobody_signalled_is_found_within_the_poll(
    serve: Serve, database_url: str, sweep_seconds: float, poll_seconds: float
) -> None:
    tasks = Tasks(
        await serve_task(serve, database_url, sweep_interval_seconds=sweep_seconds, poll_seconds=poll_seconds)
    )
    kind = new_type()
    waiting = asyncio.ensure_future(tasks.claim(kind, wait=30))
    await asyncio.wait({waiting}, timeout=2 * poll_seconds)
    made = await _create_in_silence(database_url, kind)
    began = time.monotonic()
    assert [task.id for task in (await waiting).tasks] == [made]
    assert time.monotonic() - began < 10
    await tasks.close()


async def test_nobody_is_told_of_an_empty_queue_because_the_notice_is_lost_or_on_its_way(
    serve: Serve, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted = await mount(TaskSettings(poll_seconds=600), common_settings(database_url))
    bulletin = next(loop for loop in mounted.loops if isinstance(loop, Bulletin))
    # As on a connection that died unseen.
    monkeypatch.setattr(bulletin, "_heard", lambda *_: None)
    deaf = Tasks(await serve("task", mounted))
    maker = Tasks(await serve_task(serve, database_url))
    kind = new_type()
    waiting = asyncio.ensure_future(deaf.claim(kind, wait=30, worker="w1"))
    await deaf.claim(kind, wait=0.3, worker="w2")
    for _ in range(3):
        made = await maker.create(kind)
        answer = await deaf.claim(kind, wait=0.1, worker="w2")
        assert [task.id for task in answer.tasks] == [made.id]
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    for tasks in (deaf, maker):
        await tasks.close()
