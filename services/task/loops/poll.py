"""The guarantee that work is found when a signal is lost: a look every few seconds while somebody waits."""

from __future__ import annotations

import time
from collections.abc import Sequence

from libs.common.lane import Connection
from libs.common.loops import Periodic
from services.task import statements
from services.task.work import WorkDesk

LATE = 1.1
"""What share of its interval a look may be due before this loop makes it itself."""


class Poll:
    """Looks on behalf of those who wait (domain.md 1.12).

    The look rides along with the sweep, whose transaction is open anyway and comes as often: an idle server
    costs one transaction where it would be two. When the sweep doesn't come, this loop looks itself.
    """

    def __init__(self, desk: WorkDesk, *, interval_seconds: float) -> None:
        self._desk = desk
        self._interval_seconds = interval_seconds
        self._looked_at = float("-inf")
        self._loop = Periodic("task:poll", interval_seconds / 4, self.step)

    async def start(self) -> None:
        """Begin to look."""
        await self._loop.start()

    async def stop(self) -> None:
        """End."""
        await self._loop.stop()

    async def ride_along(self, connection: Connection) -> bool:
        """Look in a transaction that is open anyway, if a look is nearly due; tell whether there is work."""
        types = self._desk.waiting_types()
        if not types or self._age() < self._interval_seconds / 2:
            return False
        began = time.monotonic()
        found = await has_work(connection, types)
        if not found:
            self._desk.note_empty(types, began)
        self._looked_at = time.monotonic()
        return found

    def hand_out(self) -> None:
        """Let those who wait claim what a look has found."""
        self._desk.look_everywhere()

    async def step(self) -> None:
        """Look, if no sweep has done it in time."""
        if self._age() >= self._interval_seconds * LATE:
            self._looked_at = time.monotonic()
            self._desk.probe()

    def _age(self) -> float:
        return time.monotonic() - self._looked_at


async def has_work(connection: Connection, types: Sequence[str]) -> bool:
    """Tell whether a task of one of these types is pending and due."""
    return bool(await connection.fetchval(statements.HAS_WORK, list(types)))
