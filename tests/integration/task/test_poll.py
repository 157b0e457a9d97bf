"""Work that nobody signalled is found by a look, which rides along with the sweep or comes by itself."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

import pytest

from libs.common.lane import Lane
from libs.common.settings import DatabaseSettings
from services.task.repository_create import NewTask, create
from tests.conftest import Serve
from tests.integration.task.service import Tasks, new_type, serve_task


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
