"""What one flush of the work desk does: runs end, then tasks are claimed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from libs.common.coalesce import interrupted
from libs.common.lane import Connection, Lane
from libs.common.loops import is_cancelled
from services.task.limits import TypeLimits
from services.task.repository_claim import Claimed, Marks, claim, first_look, second_look
from services.task.repository_end import (
    Answer,
    Backoff,
    Ended,
    EndedRow,
    Ending,
    changed,
    end_given,
    end_runs,
    lock_policies,
    settle,
)
from services.task.repository_work import end_and_claim, makes_room_at_once
from services.task.waiters import Types, Waiter, by_types, slots_of

MOST_SLOTS = 1_000

Slots = Mapping[Types, Sequence[Waiter]]


@dataclass(slots=True)
class Flushed:
    """What one flush did; `exhausted` tells of each set of types whether nothing was left.

    `failure` is what kept a part from being done after another part had been committed. `unsettled` is what
    kept the answers from being known after the ends were `committed`: nobody can be told, and what is in
    `unclaimed` goes back.
    """

    answers: list[Answer] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    claimed: dict[Waiter, list[Claimed]] = field(default_factory=dict)
    exhausted: dict[Types, bool] = field(default_factory=dict)
    failure: Exception | None = None
    committed: bool = False
    unsettled: Exception | None = None
    unclaimed: list[Claimed] = field(default_factory=list)

    def hand_out(self, types: Types, slots: Sequence[Waiter], items: Sequence[Claimed]) -> None:
        """Note what was claimed for the owners of slots, all that could be."""
        for item in items:
            self.claimed.setdefault(slots[item.slot], []).append(item)
        self.exhausted[types] = len(items) < len(slots)


class Flush:
    """Does the work of many calls at once: by a single statement where that is a whole transaction.

    A statement that is a transaction by itself costs one round trip instead of four.
    """

    def __init__(self, lane: Lane, limits: TypeLimits, backoff: Backoff) -> None:
        self._lane = lane
        self._limits = limits
        self._backoff = backoff
        self.marks = Marks()

    async def run(self, endings: Sequence[Ending], waiters: Sequence[Waiter]) -> Flushed:
        """End the runs, then claim for the waiters whose delivery is still open."""
        groups = by_types(waiters)
        slots = _open_slots(groups)
        if self._is_one_statement(endings, slots):
            return await self._by_statements(endings, slots)
        async with self._lane.transaction() as connection:
            return await self._in_turn(connection, endings, groups)

    def _is_one_statement(self, endings: Sequence[Ending], slots: Slots) -> bool:
        if self._limits.several_policies or len(slots) > 1 or any(len(types) > 1 for types in slots):
            return False
        if not endings:
            return True
        if self._limits.any_policy:  # a statement that ends runs locks tasks before policies
            return False
        return not slots or not any(makes_room_at_once(ending, self._backoff) for ending in endings)

    async def _by_statements(self, endings: Sequence[Ending], slots: Slots) -> Flushed:
        flushed = Flushed()
        try:
            async with self._lane.statements() as connection:
                await self._at_once(connection, endings, slots, flushed)
        except (Exception, asyncio.CancelledError) as error:  # the latter, too, when the connection goes away
            if is_cancelled() or not flushed.committed:
                raise
            flushed.unsettled = _told(error)
        return flushed

    async def _at_once(
        self, connection: Connection, endings: Sequence[Ending], slots: Slots, flushed: Flushed
    ) -> None:
        if not slots:
            if endings:
                rows = await end_given(connection, endings, self._backoff)
                await _settle(connection, endings, rows, flushed)
            return
        ((types, owners),) = slots.items()
        workers = [waiter.worker_id for waiter in owners]
        if endings:
            rows, look = await end_and_claim(
                connection, endings, self._backoff, (types[0], workers), self.marks
            )
            flushed.unclaimed = look.claimed
            await _settle(connection, endings, rows, flushed)
            flushed.unclaimed = []
        else:
            look = await first_look(connection, types[0], workers, self.marks)
        items = look.claimed
        try:
            items = items + await second_look(connection, types[0], workers, self.marks, look)
        except (Exception, asyncio.CancelledError) as error:  # the latter, too, when the connection goes away
            if is_cancelled() or (not endings and not items):
                raise
            # what was committed must be told all the same
            flushed.failure = _told(error)
        flushed.hand_out(types, owners, items)

    async def _in_turn(
        self, connection: Connection, endings: Sequence[Ending], groups: Mapping[Types, Sequence[Waiter]]
    ) -> Flushed:
        if self._limits.any_policy:
            wanted = [task_type for types in groups for task_type in types]
            await lock_policies(connection, wanted, [ending.task_id for ending in endings])
        flushed = Flushed()
        if endings:
            flushed.answers, flushed.ended = await end_runs(connection, endings, self._backoff)
        for types, owners in _open_slots(groups).items():
            workers = [waiter.worker_id for waiter in owners]
            flushed.hand_out(types, owners, await claim(connection, types, workers, self.marks))
        return flushed


async def _settle(
    connection: Connection, endings: Sequence[Ending], rows: Sequence[EndedRow], flushed: Flushed
) -> None:
    """Learn the answers for endings that are committed; what has changed is noted before that."""
    flushed.ended, flushed.committed = changed(endings, rows), True
    flushed.answers, _ = await settle(connection, endings, rows)


def _told(error: Exception | asyncio.CancelledError) -> Exception:
    return error if isinstance(error, Exception) else interrupted(error)


def _open_slots(groups: Mapping[Types, Sequence[Waiter]]) -> dict[Types, list[Waiter]]:
    """Return who owns each slot of the claims to be made, a thousand in all."""
    slots: dict[Types, list[Waiter]] = {}
    room = MOST_SLOTS
    for types, group in groups.items():
        owners = slots_of([waiter for waiter in group if not waiter.delivery.done()], room)
        if owners:
            slots[types] = owners
            room -= len(owners)
    return slots
