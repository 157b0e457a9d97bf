"""kill -9 of the worker and of PostgreSQL before and after each call that a job needs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.soak.ingest.steps import EVERY_STEP, Death, Steps


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("store", ["folder", "seaweedfs"])
async def test_a_kill_at_any_step_costs_a_run_at_most(store: str, tell: Callable[[object], None]) -> None:
    deaths = [Death(victim, *at) for victim in ("worker", "postgres") for at in EVERY_STEP]
    report = await Steps(deaths, store=store).run()
    tell(report)
    assert report.jobs == {"created": len(deaths)}
