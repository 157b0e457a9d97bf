"""How long a machine runs: a short profile for every test run, a long one for a soak."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.soak.review.machine import machine_on
from tests.soak.review.rig import Rig

STEPS_AN_EXAMPLE = 40
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def run_machine(
    database_url: str, folder: Path, *, examples: int, steps: int = 0, repeatable: bool
) -> Counter[str]:
    """Run `examples` examples, again until `steps` steps were taken; return how many were, and of what kinds.

    `repeatable`: the same examples each time. Otherwise new ones, and a failure prints how to have it again.
    """
    rig = Rig(database_url, folder)
    profile = settings(
        max_examples=examples,
        stateful_step_count=STEPS_AN_EXAMPLE,
        derandomize=repeatable,
        database=None,
        deadline=None,
        print_blob=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=_SLOW,
    )
    try:
        while True:
            run_state_machine_as_test(machine_on(rig), settings=profile)
            if rig.steps >= steps:
                return rig.outcomes + Counter(steps=rig.steps)
    finally:
        rig.close()
