"""Concurrency limits in 10,000 calls each, eight at a time, over three server processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.soak.task.fleet import Fleet
from tests.soak.task.limits import LimitRaces

CALLS = 10_000
CALLS_A_ROUND = 1_000


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("limits", [[1, 4], [3]])
async def test_a_limit_is_never_exceeded(
    share: float, tell: Callable[[object], None], limits: list[int]
) -> None:
    calls = round(CALLS * share)
    # Whoever holds a run beats; a machine that stands still for a while must not make it lost.
    fleet = Fleet(servers=3, workers=0, slots=0, environment={"FRONTROW_TASK_LEASE_SECONDS": "60"})
    try:
        await fleet.start()
        races = LimitRaces(fleet.clients, fleet.postgres.direct_url, limits, seed=2)
        await races.run(calls, rounds=max(1, calls // CALLS_A_ROUND))
    finally:
        await fleet.close()
    tell(f"{races.claimed} claims, {races.seen}, {dict(races.most)} at once, {races.slowest_seconds:.3f} s")
    assert dict(races.most) == {limit: limit for limit in limits}
