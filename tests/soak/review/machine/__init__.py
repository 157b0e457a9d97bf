"""A state machine that drives two real review servers and holds them against the rules."""

from __future__ import annotations

from tests.soak.review.machine.races import RaceRules
from tests.soak.review.rig import Rig

__all__ = ["machine_on"]


def machine_on(on: Rig) -> type[RaceRules]:
    """Return the machine that drives this rig."""

    class Machine(RaceRules):
        rig = on

    return Machine
