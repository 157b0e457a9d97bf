"""Writes that come too late are counted on many runs at once, in one order."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

import asyncpg

from libs.common.lane import Lane
from libs.common.settings import DatabaseSettings
from libs.common.testing import eventually
from services.task.repository_end import count_late

_RUN = """
INSERT INTO task.task_runs (task_id, version, worker_id, started_at, ended_at, ended_as, outcome)
VALUES ($1, $2, 'w', now(), now(), 'completed', 'applied')
"""
_LOCK = "SELECT FROM task.task_runs WHERE task_id = $1 AND version = $2 FOR UPDATE"
_WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


async def _count(lane: Lane, runs: list[tuple[UUID, int]]) -> None:
    async with lane.statements() as connection:
        await count_late(connection, runs)


async def test_who_waits_for_the_first_run_holds_none_of_the_others(database_url: str) -> None:
    runs = sorted((uuid4(), version) for _ in range(15) for version in (1, 2))
    lane = Lane(DatabaseSettings(url=database_url), "test")
    holder, watcher = await asyncpg.connect(database_url), await asyncpg.connect(database_url)
    await holder.executemany(_RUN, sorted(runs, key=lambda run: run[0].bytes[::-1]))
    async with holder.transaction():
        await holder.execute(_LOCK, *runs[0])
        counting = asyncio.ensure_future(_count(lane, [*reversed(runs), *runs]))
        await eventually(lambda: watcher.fetchval(_WAITING))
        for run in runs[1:]:
            await holder.execute(f"{_LOCK} NOWAIT", *run)
    await counting
    counts = await holder.fetch("SELECT late_writes FROM task.task_runs")
    assert [row["late_writes"] for row in counts] == [2] * len(runs)
    await holder.close()
    await watcher.close()
    await lane.close()
