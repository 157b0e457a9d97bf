"""A state machine that drives the real task service and holds it against the model."""

from __future__ import annotations

from tests.soak.task.machine.faults import FaultRules
from tests.soak.task.machine.people import PeopleRules
from tests.soak.task.machine.races import RaceRules
from tests.soak.task.machine.watching import WatchRules
from tests.soak.task.machine.worker import WorkerRules
from tests.soak.task.rig import Rig

__all__ = ["QueueMachine", "machine_on"]


class QueueMachine(WatchRules, PeopleRules, WorkerRules, FaultRules, RaceRules):
    """All rules together."""


def machine_on(on: Rig) -> type[QueueMachine]:
    """Return the machine that drives this rig."""

    class Machine(QueueMachine):
        rig = on

    return Machine
