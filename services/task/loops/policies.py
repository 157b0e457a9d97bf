"""Keep this server's copy of the queue policies fresh, and forget those that were never set."""

from __future__ import annotations

from collections.abc import Callable

from libs.common.db import Database
from libs.common.loops import Periodic
from services.task import repository_queue
from services.task.limits import TypeLimits

INTERVAL_SECONDS = 30.0


class PolicyWatch:
    """Reads the policies when a notice says that one changed, and now and then without one.

    Leases, stall limits and attempts come from the copy. Pause and limit don't: the claim itself reads those
    in its transaction. `on_change` is told after a read that found or was to find another one.
    """

    def __init__(self, database: Database, limits: TypeLimits, on_change: Callable[[], None]) -> None:
        self._database = database
        self._limits = limits
        self._on_change = on_change
        self._told = False
        self._loop = Periodic("task:policies", INTERVAL_SECONDS, self.step)

    def wake(self) -> None:
        """Read soon: a notice says that a policy changed."""
        self._told = True
        self._loop.wake()

    async def start(self) -> None:
        """Read now, then go on."""
        await self._loop.start()

    async def stop(self) -> None:
        """End."""
        await self._loop.stop()

    async def step(self) -> None:
        """Read once."""
        told, self._told = self._told, False
        async with self._database.begin() as session:
            await repository_queue.drop_uncounted(session)
            changed = self._limits.set_policies(await repository_queue.policies(session))
        # Told: a pause that has come and gone since the last read shows no change.
        if changed or told:
            self._on_change()
