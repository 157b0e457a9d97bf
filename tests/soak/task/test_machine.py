"""The task service against the model of the queue, 100,000 steps: two halves, for two cores."""

from __future__ import annotations

import pytest

from tests.soak.task.profiles import run_machine

STEPS = 100_000


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("half", ["first", "second"])
def test_the_service_does_what_the_model_says_whatever_happens(
    database_url: str, share: float, half: str
) -> None:
    steps = round(STEPS / 2 * share)
    taken = run_machine(database_url, examples=max(1, min(200, steps // 50)), steps=steps, repeatable=False)
    assert taken >= steps
