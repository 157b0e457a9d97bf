"""The terms of the model: its limits in virtual seconds, tasks, runs, ends and policies.

Steps of the clock are multiples of 100 s and all limits lie between two of them, so that the real seconds a
check takes decide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from uuid import UUID

STEP = 100
LEASES = {"quick": 650, "slow": 1_250}
STALLS = {"quick": 2_050, "slow": 1_650}
POLICY_LEASES = (0, 350, 950)
READ_BY_ALL = 100
"""How long after a change another server may still tell workers the lease from before."""
POLICY_STALLS = (0, 1_450, 2_450)
LONGEST_LEASE = 1_250
LOST_CLAIM = 150
LONGEST_GAP = 250
KEEP = 2_050
"""How long finished tasks are kept."""
ATTEMPTS = 4
"""Runs of a task whose creator names no number, unless its type's policy does."""
BACKOFF = 40
"""Ceiling of every pause after a failure: over by the next step of the clock, whatever was drawn."""

TERMINAL = frozenset({"completed", "failed", "cancelled"})
Lost = Literal["STALE", "STALLED"]


class Run(NamedTuple):
    """One claim of a task: what a worker names in each of its writes."""

    task_id: UUID
    version: int


class Policy(NamedTuple):
    """What a person set for a type; 0: none of its own."""

    paused: bool = False
    limit: int = 0
    lease: int = 0
    stall: int = 0
    attempts: int = 0


class Record(NamedTuple):
    """What is kept of a run that ended. `said` is the worker's own word, None when the server ended it."""

    worker: str
    said: str | None
    outcome: str
    reason: str


@dataclass
class End:
    """How a worker ends a run."""

    said: Literal["completed", "failed", "released"]
    progress: int | None = None
    message: str = ""
    retryable: bool = False
    pause: int = 0
    ext: int | None = None


@dataclass
class ModelTask:
    """A task as it must stand in the database."""

    task_id: UUID
    type: str
    max_attempts: int
    priority: int
    order: tuple[int, int]
    status: str = "pending"
    version: int = 0
    attempts: int = 0
    progress: int = 0
    worker: str | None = None
    started: float = 0
    heard: float = 0
    rose: float = 0
    absent: int = 0
    cancel_requested: bool = False
    over: float | None = None
    """Since when it has been finished."""
    reason: str = ""
    message: str = ""
    ext: int | None = None
    urls: dict[str, str] = field(default_factory=dict)
    due: tuple[float, float] | None = None
    """While it may not be claimed: the earliest and the latest time at which that ends."""
    records: dict[int, Record] = field(default_factory=dict)

    @property
    def run(self) -> Run | None:
        """The live run, if there is one."""
        return Run(self.task_id, self.version) if self.worker is not None else None
