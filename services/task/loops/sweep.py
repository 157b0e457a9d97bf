"""Take back runs whose worker is lost or stuck. Runs on every server at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import asyncpg
import structlog

from libs.common.lane import Connection, Lane
from libs.common.loops import Periodic
from services.task.limits import TypeLimits
from services.task.loops.patience import Patience
from services.task.loops.poll import Poll
from services.task.repository_end import (
    Ended,
    end_lost,
    lock_all_policies,
    lock_policies,
    policy_types,
)
from services.task.states import Status

log = structlog.get_logger(__name__)

MOST = 500
LONGEST_PAUSE_SECONDS = 15.0
SHARE = 0.02
"""What share of the time the search may take: dead rows that can't be taken away make it long."""


class Sweep:
    """Every few seconds ends the runs of lost workers, once this server has listened for a whole lease.

    Where the search takes long it is made less often, every 15 seconds at least. A policy that somebody holds
    puts off the sweep of its type alone. `poll` rides along with the transactions.
    """

    def __init__(
        self, lane: Lane, limits: TypeLimits, on_ended: Callable[[Sequence[Ended]], None], *,
        interval_seconds: float, patience: Patience, poll: Poll | None = None,
    ) -> None:  # fmt: skip
        self._lane = lane
        self._limits = limits
        self._on_ended = on_ended
        self._patience = patience
        self._poll = poll
        self._interval_seconds = interval_seconds
        self._next_search = float("-inf")
        self._held: set[str] = set()
        self._loop = Periodic("task:sweep", interval_seconds, self.step)

    async def start(self) -> None:
        """Begin to listen and to sweep."""
        self._patience.doubt()
        await self._loop.start()

    async def stop(self) -> None:
        """Let the sweep in hand finish."""
        await self._loop.stop()

    async def step(self) -> None:
        """Sweep once, as far as this server has listened long enough."""
        try:
            while await self._sweep() == MOST:
                pass
        except asyncpg.LockNotAvailableError:
            raise  # a policy that somebody holds keeps no beat from being taken
        except Exception:
            self._patience.doubt()
            raise

    async def _sweep(self) -> int:
        try:
            return await self._sweep_free()
        except asyncpg.LockNotAvailableError:
            await self._find_held()
            return await self._sweep_free()

    async def _find_held(self) -> None:
        """Learn which policies somebody holds, by waiting for each; the others are free meanwhile."""
        async with self._lane.transaction() as connection:
            types = await policy_types(connection)
        for task_type in types:
            if task_type in self._held:
                continue
            try:
                async with self._lane.transaction() as connection:
                    await self._observe(connection)
                    await lock_policies(connection, [task_type])
            except asyncpg.LockNotAvailableError:
                self._held.add(task_type)
        log.warning("task.policies_held", types=sorted(self._held))

    async def _observe(self, connection: Connection) -> float:
        return self._patience.observe(await connection.fetchval("SELECT clock_timestamp()"))

    async def _sweep_free(self) -> int:
        async with self._lane.transaction() as connection:
            patience_seconds = await self._observe(connection)
            ended = await self._search(connection, patience_seconds)
            found = self._poll is not None and await self._poll.ride_along(connection)
        if self._poll is not None and found:
            self._poll.hand_out()
        if ended:
            given_back = sum(task.status == Status.PENDING for task in ended)
            log.warning("task.runs_lost", given_back=given_back, ended=len(ended) - given_back)
            self._on_ended(ended)
        return len(ended)

    async def _search(self, connection: Connection, patience_seconds: float) -> list[Ended]:
        began = time.monotonic()
        if began < self._next_search:
            return []
        ended = await self._end(connection, patience_seconds)
        took = time.monotonic() - began
        if len(ended) < MOST and took / SHARE > self._interval_seconds:
            self._next_search = began + min(LONGEST_PAUSE_SECONDS, took / SHARE)
        return ended

    async def _end(self, connection: Connection, patience_seconds: float) -> list[Ended]:
        limits = self._limits
        leases = {task_type: limits.lost_after_seconds(task_type) for task_type in limits.named_types()}
        # A type whose lease is longer than this server has listened must wait, as one whose policy somebody
        # holds: its limits are left out, and as a named type it doesn't fall under the default either.
        waits = {task_type for task_type, lease in leases.items() if lease > patience_seconds}
        default = None
        if limits.default_lease_seconds <= patience_seconds:
            stall = _ripe(limits.default_stall_seconds, patience_seconds)
            default = (limits.default_lease_seconds, stall)
        if waits.issuperset(leases) and default is None:
            return []
        if limits.any_policy:
            self._held = await lock_all_policies(connection, self._held)
            waits |= self._held
        own = [
            (task_type, lease, _ripe(limits.stall_seconds(task_type), patience_seconds))
            for task_type, lease in leases.items()
            if task_type not in waits
        ]
        return await end_lost(connection, own, default, unripe=sorted(waits), most=MOST)


def _ripe(stall_seconds: float, patience_seconds: float) -> float | None:
    """Return a stall limit that this server has listened for; None for one that it can't judge by yet.

    What made no progress while nobody could hear of any, or since before a clock's jump, is not stuck.
    """
    return stall_seconds if stall_seconds <= patience_seconds else None
