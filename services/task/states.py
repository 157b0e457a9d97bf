"""States of a task, what may follow what, how a run's end is decided. Pure; the SQL guards say the same."""

from __future__ import annotations

import enum


class Status(enum.StrEnum):
    """Where a task stands, as stored."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class End(enum.StrEnum):
    """What ends a run: the worker's own word, or the server's."""

    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"
    LOST = "lost"


TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.PENDING: frozenset({Status.PROCESSING, Status.CANCELLED}),
    Status.PROCESSING: frozenset({Status.PENDING, Status.COMPLETED, Status.FAILED, Status.CANCELLED}),
    Status.COMPLETED: frozenset(),
    Status.FAILED: frozenset({Status.PENDING}),
    Status.CANCELLED: frozenset({Status.PENDING}),
}
"""What a status may become. Every step raises the version by one (domain.md 1.3)."""

FINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
RETRYABLE = frozenset({Status.FAILED, Status.CANCELLED})
CANCELLABLE = frozenset({Status.PENDING, Status.PROCESSING})

ERROR_CHARACTERS = 4_000
"""What is kept of an error message (domain.md 1.8)."""


def status_after(
    end: End, *, retryable: bool = False, attempts: int, max_attempts: int, cancel_requested: bool
) -> Status:
    """Return what a task becomes when its run ends (domain.md 1.6–1.8, 1.10, 1.11).

    `retryable` counts for a failure alone. A lost run is given back until its attempts are used up.
    """
    if cancel_requested:
        return Status.CANCELLED
    if end is End.COMPLETED:
        return Status.COMPLETED
    if end is End.RELEASED:
        return Status.PENDING
    if (retryable or end is End.LOST) and attempts < max_attempts:
        return Status.PENDING
    return Status.FAILED
