"""How long a machine runs: a short profile for every test run, a long one for a soak."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.soak.machine_profile import drive
from tests.soak.review.machine import machine_on
from tests.soak.review.rig import Rig

STEPS_AN_EXAMPLE = 40


def run_machine(
    database_url: str, folder: Path, *, examples: int, steps: int = 0, repeatable: bool
) -> Counter[str]:
    """Run `examples` examples, again until `steps` steps were taken; return how many were, and of what kinds.

    `repeatable`: the same examples each time. Otherwise new ones, and a failure prints how to have it again.
    """
    rig = Rig(database_url, folder)
    try:
        drive(
            machine_on(rig),
            lambda: rig.steps >= steps,
            examples=examples,
            steps_an_example=STEPS_AN_EXAMPLE,
            repeatable=repeatable,
        )
        return rig.outcomes + Counter(steps=rig.steps)
    finally:
        rig.close()
