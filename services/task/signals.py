"""What follows a commit: waiters here are woken, watches here look again, the other servers are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from services.task.limits import TypeLimits
from services.task.metrics import TaskMetrics
from services.task.repository_claim import Claimed
from services.task.repository_end import Ended
from services.task.states import Status

Wake = Callable[[str, int], None]
Changed = Callable[[list[UUID]], None]
Publish = Callable[[Mapping[str, int], Iterable[UUID]], None]


class Signals:
    """Spreads the word. The receivers are set once, by `connect`, since they need this object themselves."""

    def __init__(self, limits: TypeLimits, measured: TaskMetrics) -> None:
        self._limits = limits
        self._metrics = measured
        self._wake: Wake | None = None
        self._changed: Changed | None = None
        self._added: Changed | None = None
        self._publish: Publish | None = None
        self._later: Callable[[datetime], None] | None = None
        self._noted: Callable[[], None] | None = None

    def connect(
        self, *, wake: Wake, changed: Changed, added: Changed, publish: Publish,
        later: Callable[[datetime], None], noted: Callable[[], None],
    ) -> None:  # fmt: skip
        """Say who is to be told; `later` hears when a task falls due, `noted` that counters changed."""
        self._wake, self._changed, self._added, self._publish = wake, changed, added, publish
        self._later, self._noted = later, noted

    def tell(
        self, changed: Sequence[UUID], claimable: Mapping[str, int], *, added: Sequence[UUID] = ()
    ) -> None:
        """Tell everybody that these tasks changed and how many of each type may be claimed now.

        `added` are new ones that have not begun.
        """
        if self._wake is not None:
            for task_type, count in claimable.items():
                self._wake(task_type, count)
        if changed and self._changed is not None:
            self._changed(list(changed))
        if added and self._added is not None:
            self._added(list(added))
        if self._publish is not None:
            self._publish(claimable, [*changed, *added])
        if (changed or added or claimable) and self._noted is not None:
            self._noted()

    def _fall_due(self, moments: Iterable[datetime | None]) -> None:
        ahead = [moment for moment in moments if moment is not None]
        if ahead and self._later is not None:
            self._later(min(ahead))

    def created(self, rows: Sequence[asyncpg.Record]) -> None:
        """Tell of new tasks; those that are due later, or have begun already, wake nobody."""
        self._metrics.created(rows)
        waiting = [row for row in rows if row["status"] == Status.PENDING]
        begun = [row["id"] for row in rows if row["status"] != Status.PENDING]
        claimable = Counter(row["type"] for row in waiting if row["due_at"] is None)
        self._fall_due(row["due_at"] for row in rows)
        self.tell(begun, claimable, added=[row["id"] for row in waiting])

    def worked(self, ended: Sequence[Ended], claimed: Sequence[Claimed]) -> None:
        """Tell of runs that began and ended; what is pending again, or has made room, wakes somebody."""
        self._metrics.worked(ended, claimed)
        claimable = Counter(
            task.type
            for task in ended
            if (task.status == Status.PENDING and task.due_at is None) or self._limits.is_limited(task.type)
        )
        self._fall_due(task.due_at for task in ended)
        self.tell([*(task.task_id for task in ended), *(item.row["id"] for item in claimed)], claimable)

    def ended(self, ended: Sequence[Ended]) -> None:
        """Tell of runs that the server ended."""
        self.worked(ended, ())

    def rose(self, task_ids: Sequence[UUID]) -> None:
        """Tell of progress."""
        self.tell(task_ids, {})
