"""How Hypothesis drives a state machine: in a few examples for every test run, in many steps for a soak."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def drive(
    machine: Any, is_enough: Callable[[], bool], *, examples: int, steps_an_example: int, repeatable: bool
) -> None:
    """Run `examples` examples of a machine, again until it is enough.

    `repeatable`: the same examples each time. Otherwise new ones, and a failure prints how to have it again.
    """
    profile = settings(
        max_examples=examples,
        stateful_step_count=steps_an_example,
        derandomize=repeatable,
        database=None,
        deadline=None,
        print_blob=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=_SLOW,
    )
    while True:
        run_state_machine_as_test(machine, settings=profile)
        if is_enough():
            return
