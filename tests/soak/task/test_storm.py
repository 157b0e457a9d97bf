"""10,000 tasks under 200 kills and 40 goodbyes, restarts of PostgreSQL, cut listeners and cut connections."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.soak.task.storm import Plan, Storm

TASKS, KILLS, GOODBYES, RESTARTS, CUTS = 10_000, 200, 40, 6, 60
SERVING_AGAIN_SECONDS = 5.0


@pytest.mark.timeout(3600)
async def test_every_task_ends_exactly_once_whatever_is_killed_or_cut(
    share: float, tell: Callable[[object], None]
) -> None:
    plan = Plan(
        tasks=round(TASKS * share),
        kills=max(2, round(KILLS * share)),
        goodbyes=max(2, round(GOODBYES * share)),
        restarts=max(1, round(RESTARTS * share)),
        cuts=max(3, round(CUTS * share)),
        servers=3,
        workers=4,
        slots=10,
        work_seconds=1.5,
        longest_pause_seconds=2.0,
        outage_seconds=40.0,
        end_seconds=600.0,
        seed=random.randrange(1 << 32),
    )
    tell(plan)
    report = await Storm(plan).run()
    tell(report)
    assert report.ended.total() == plan.tasks
    assert report.faults["kill"] == plan.kills
    assert report.faults["say_goodbye"] == plan.goodbyes
    assert max(report.serving_again_seconds) <= SERVING_AGAIN_SECONDS
