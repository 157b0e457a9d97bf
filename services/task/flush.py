"""What one transaction of the work desk does: runs end, then tasks are claimed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from libs.common.lane import Connection
from services.task.limits import TypeLimits
from services.task.repository_claim import Claimed, Marks, claim
from services.task.repository_end import Answer, Backoff, Ended, Ending, end_runs, lock_policies
from services.task.waiters import Types, Waiter, by_types, slots_of

MOST_SLOTS = 1_000


@dataclass(slots=True)
class Flushed:
    """What one transaction did; `exhausted` tells of each set of types whether nothing was left."""

    answers: list[Answer]
    ended: list[Ended]
    claimed: dict[Waiter, list[Claimed]] = field(default_factory=dict)
    exhausted: dict[Types, bool] = field(default_factory=dict)


class Flush:
    """Does the work of many calls at once, in the caller's transaction."""

    def __init__(self, limits: TypeLimits, backoff: Backoff, marks: Marks) -> None:
        self._limits = limits
        self._backoff = backoff
        self._marks = marks

    async def run(
        self, connection: Connection, endings: Sequence[Ending], waiters: Sequence[Waiter]
    ) -> Flushed:
        """End the runs, then claim for the waiters whose delivery is still open."""
        groups = by_types(waiters)
        if self._limits.several_policies:
            wanted = [task_type for types in groups for task_type in types]
            await lock_policies(connection, wanted, [ending.task_id for ending in endings])
        flushed = Flushed([], [])
        if endings:
            flushed.answers, flushed.ended = await end_runs(connection, endings, self._backoff)
        room = MOST_SLOTS
        for types, group in groups.items():
            slots = slots_of([waiter for waiter in group if not waiter.delivery.done()], room)
            if not slots:
                continue
            rows = await claim(connection, types, [waiter.worker_id for waiter in slots], self._marks)
            for item in rows:
                flushed.claimed.setdefault(slots[item.slot], []).append(item)
            room -= len(rows)
            flushed.exhausted[types] = len(rows) < len(slots)
        return flushed
