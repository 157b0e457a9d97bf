"""A search that takes long is made less often; the server goes on listening all the while."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from libs.common.lane import Lane
from services.task.limits import TypeLimits
from services.task.loops import sweep
from services.task.loops.patience import Patience
from services.task.loops.sweep import Sweep
from services.task.settings import TaskSettings

INTERVAL_SECONDS = 3.0
LEASE_SECONDS = 60.0


class _Database:
    """Answers the time; stands in for the lane and its connection."""

    def __init__(self) -> None:
        self.now = 0.0

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[_Database]:
        yield self

    async def fetchval(self, _: str) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now)


@pytest.mark.parametrize(("took", "pause"), [(0.01, 3), (0.06, 3), (0.2, 12), (5.0, 15)])
async def test_searches_take_a_fiftieth_of_the_time_and_come_every_quarter_of_a_minute(
    monkeypatch: pytest.MonkeyPatch, took: float, pause: float
) -> None:
    database, searched = _Database(), list[float]()

    async def end_lost(*_: Any, **__: Any) -> list[Any]:
        searched.append(database.now)
        database.now += took
        return []

    monkeypatch.setattr(sweep, "end_lost", end_lost)
    monkeypatch.setattr(sweep, "time", SimpleNamespace(monotonic=lambda: database.now))
    patience = Patience(longest_gap_seconds=INTERVAL_SECONDS * 2 + 2, monotonic=lambda: database.now)
    limits = TypeLimits(TaskSettings(lease_seconds=LEASE_SECONDS, lease_seconds_by_type={}))
    made = Sweep(
        cast(Lane, database), limits, lambda _: None, interval_seconds=INTERVAL_SECONDS, patience=patience
    )
    for _ in range(100):
        await made.step()
        database.now += INTERVAL_SECONDS
    assert searched[0] >= LEASE_SECONDS
    gaps = [later - earlier for earlier, later in itertools.pairwise(searched)]
    assert all(abs(gap - took - pause) <= INTERVAL_SECONDS for gap in gaps[1:]), gaps
