"""Who waits for work on this server, and whom a signal wakes. In memory; the database decides who gets what.

A signal is a level, not a pulse: it says how many tasks may be there, never piles up beyond the waiters, and
wakes as many of them as there are tasks (domain.md 1.12).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from services.task.repository_claim import Claimed

Types = tuple[str, ...]


@dataclass(eq=False, slots=True)
class Waiter:
    """A call that wants up to `count` tasks of `types`; `delivery` gets them, or an error."""

    worker_id: str
    types: Types
    count: int
    delivery: asyncio.Future[list[Claimed]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def dismiss(self) -> None:
        """Answer that there was nothing, unless it has its answer."""
        if not self.delivery.done():
            self.delivery.set_result([])

    def refuse(self, error: Exception) -> None:
        """Raise an error in it, unless it has its answer."""
        if not self.delivery.done():
            self.delivery.set_exception(error)


class Loan(NamedTuple):
    """Somebody who waits, lent to be given a task that is just being made.

    No fresh task of its type waits below `mark`.
    """

    waiter: Waiter
    mark: datetime


@dataclass(eq=False, slots=True)
class _Group:
    """The waiters for one set of types, first come first served, and the tasks signalled for them."""

    types: Types
    waiters: dict[Waiter, None] = field(default_factory=dict)
    settled: set[Waiter] = field(default_factory=set)
    signalled: int = 0
    looking: bool = False
    unsure: bool = False
    empty_at: float = float("-inf")


class WaitRoom:
    """The waiters of this server by the set of types they want."""

    def __init__(self) -> None:
        self._groups: dict[Types, _Group] = {}
        self._by_type: dict[str, set[Types]] = {}
        self._looking: list[_Group] = []

    def __len__(self) -> int:
        return sum(len(group.waiters) for group in self._groups.values())

    def types(self) -> list[str]:
        """Return the types somebody waits for."""
        return list(self._by_type)

    def all(self) -> list[Waiter]:
        """Return everybody who waits."""
        return [waiter for group in self._groups.values() for waiter in group.waiters]

    def holds(self, waiter: Waiter) -> bool:
        """Return whether this caller waits here."""
        group = self._groups.get(waiter.types)
        return group is not None and waiter in group.waiters

    def add(self, waiter: Waiter) -> None:
        """Let a caller wait."""
        group = self._groups.get(waiter.types)
        if group is None:
            group = self._groups[waiter.types] = _Group(waiter.types)
            for task_type in waiter.types:
                self._by_type.setdefault(task_type, set()).add(waiter.types)
        group.waiters[waiter] = None

    def settle(self, waiter: Waiter) -> None:
        """Note that a caller has looked, or needn't, and found nothing."""
        group = self._groups.get(waiter.types)
        if group is not None and waiter in group.waiters:
            group.settled.add(waiter)

    def is_settled(self, types: Types) -> bool:
        """Return whether somebody waits here who found nothing: whatever came since has been signalled.

        Who wants the same needn't look then. The waits of a fleet end and begin again all the time.
        """
        group = self._groups.get(types)
        return group is not None and bool(group.settled)

    def note_empty(self, types: Sequence[str], at: float) -> None:
        """Note that a look begun at `at` found nothing of these types, for all who want no others."""
        looked_at = set(types)
        for group in self._groups.values():
            if looked_at.issuperset(group.types):
                group.empty_at = max(group.empty_at, at)

    def was_empty_since(self, types: Types, moment: float) -> bool:
        """Return whether a look that began at `moment` or later found nothing of these types."""
        group = self._groups.get(types)
        return group is not None and group.empty_at >= moment

    def lend(self, task_type: str) -> Waiter | None:
        """Take out somebody who found nothing, to be given a task that is just being made; None: nobody.

        Nobody while a look is under way or due: there may be older tasks, and others may come first.
        """
        for types in self._by_type.get(task_type, ()):
            group = self._groups[types]
            if group.looking or group.signalled:
                continue
            for waiter in group.waiters:
                if waiter in group.settled and not waiter.delivery.done():
                    self.remove(waiter)
                    return waiter
        return None

    def remove(self, waiter: Waiter) -> None:
        """Forget a caller who was served or went away; harmless when it isn't here."""
        group = self._groups.get(waiter.types)
        if group is None:
            return
        group.waiters.pop(waiter, None)
        group.settled.discard(waiter)
        if group.waiters:
            return
        del self._groups[waiter.types]
        for task_type in waiter.types:
            self._by_type[task_type].discard(waiter.types)
            if not self._by_type[task_type]:
                del self._by_type[task_type]

    def signal(self, task_type: str, count: int = 1) -> bool:
        """Note that `count` tasks of a type may be there; return whether anybody waits for them."""
        heard = False
        for types in self._by_type.get(task_type, ()):
            group = self._groups[types]
            wanted = group.signalled + count
            group.signalled = min(wanted, len(group.waiters))
            group.unsure = group.unsure or wanted > group.signalled
            heard = True
        return heard

    def probe(self) -> bool:
        """Let one waiter of each set of types look, signal or not; return whether anybody waits."""
        for group in self._groups.values():
            group.signalled = max(group.signalled, 1)
            group.unsure = True
        return bool(self._groups)

    def take_signalled(self) -> list[Waiter]:
        """Return the waiters to be tried now, as many of each set as tasks were signalled; they stay here."""
        chosen: list[Waiter] = []
        for group in self._groups.values():
            if group.signalled:
                waiters = iter(group.waiters)
                chosen += [waiter for waiter, _ in zip(waiters, range(group.signalled), strict=False)]
                group.signalled = 0
                group.looking = True
                self._looking.append(group)
        return chosen

    def looked(self) -> None:
        """Note that the waiters taken last have been tried."""
        for group in self._looking:
            group.looking = False
        self._looking.clear()

    def note_rest(self, types: Types, served: int, *, exhausted: bool) -> None:
        """Note whether all who were tried got what they wanted.

        If so, and it isn't known how many tasks there are, twice as many shall look next.
        """
        group = self._groups.get(types)
        if group is None:
            return
        if exhausted:
            group.unsure = False
        elif group.unsure:
            group.signalled = max(group.signalled, min(2 * served, len(group.waiters)))


def slots_of(waiters: Sequence[Waiter], most: int) -> list[Waiter]:
    """Return who owns each slot of a claim: in turns, so that few tasks are spread over the waiters."""
    slots: list[Waiter] = []
    left = [(waiter, waiter.count) for waiter in waiters]
    while left and len(slots) < most:
        slots += [waiter for waiter, _ in left]
        left = [(waiter, count - 1) for waiter, count in left if count > 1]
    return slots[:most]


def by_types(waiters: Iterable[Waiter]) -> dict[Types, list[Waiter]]:
    """Return the waiters by the set of types they want."""
    grouped: dict[Types, list[Waiter]] = {}
    for waiter in waiters:
        grouped.setdefault(waiter.types, []).append(waiter)
    return grouped
