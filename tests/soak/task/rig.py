"""The real thing under the machine: two task servers, a sweeper and PostgreSQL, with a clock that steps.

Database time is the only clock of the queue, so a step of the clock moves every stored time back. The servers
themselves never sweep (their sweep comes every ten minutes and wants to have listened for longer than any
check lasts); the machine runs the sweep by hand, with a patience that lives on the stepped clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import asyncpg

from libs.common.context_server import ContextServer
from libs.common.lane import Lane, driver_url
from libs.common.settings import DatabaseSettings
from services.task.limits import TypeLimits
from services.task.loops.due import DueTasks
from services.task.loops.patience import Patience
from services.task.loops.sweep import Sweep
from services.task.models import LEVELS
from services.task.mount import mount
from services.task.settings import TaskSettings
from tests.integration.task.service import Tasks, common_settings
from tests.soak.task import model

T = TypeVar("T")

CALL_SECONDS = 60.0
SERVERS = 2
SETTINGS = TaskSettings(
    lease_seconds=model.LEASES["quick"],
    lease_seconds_by_type={"slow": model.LEASES["slow"]},
    stall_seconds=model.STALLS["quick"],
    stall_seconds_by_type={"slow": model.STALLS["slow"]},
    lost_claim_seconds=model.LOST_CLAIM,
    retry_base_seconds=model.BACKOFF,
    retry_longest_seconds=model.BACKOFF,
    sweep_interval_seconds=600,
    due_interval_seconds=600,
)
_MOVE = """
UPDATE task.tasks SET started_at = started_at - $1::interval, heartbeat_at = heartbeat_at - $1::interval,
    progress_at = progress_at - $1::interval, due_at = due_at - $1::interval,
    run_after = run_after - $1::interval
"""
_EMPTY = "; ".join(
    f"DELETE FROM task.{name}"
    for name in ("task_runs", "tasks", "queue_policies", "queue_deltas", "queue_counts", "queue_minutes")
)
_COUNTS = f"""
SELECT type, {", ".join(f"sum({name})::int AS {name}" for name in LEVELS)} FROM (
    SELECT type, {", ".join(LEVELS)} FROM task.queue_counts
    UNION ALL SELECT type, {", ".join(LEVELS)} FROM task.queue_deltas) u
GROUP BY type
"""
_LOOK = "SELECT *, extract(epoch FROM due_at - now()) AS due_in FROM task.tasks ORDER BY id"
_OTHERS = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"


@dataclass(frozen=True)
class State:
    """What is stored: tasks, records of runs, the counters and the policies of each type."""

    tasks: Sequence[asyncpg.Record]
    runs: Sequence[asyncpg.Record]
    counts: Mapping[str, Mapping[str, Any]]
    policies: Mapping[str, asyncpg.Record]


class _SteppedPatience(Patience):
    """The server's patience on a clock that can be stepped; the database's clock steps with it."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0
        super().__init__(longest_gap_seconds=model.LONGEST_GAP, monotonic=self._stepped)

    def _stepped(self) -> float:
        return time.monotonic() + self.ahead_seconds

    def observe(self, database_time: datetime) -> float:
        """Note an answer of the database, at the stepped time."""
        return super().observe(datetime.fromtimestamp(0, UTC) + timedelta(seconds=self._stepped()))


class Rig:
    """Runs in an event loop of its own, which only moves inside `run`."""

    def __init__(self, database_url: str) -> None:
        self.url = database_url
        self.steps = 0
        self._loop = asyncio.new_event_loop()
        self._servers: list[ContextServer] = []
        self.clients: list[Tasks] = []
        self._patience = _SteppedPatience()
        self.run(self._open())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work in the rig's loop."""
        return self._loop.run_until_complete(asyncio.wait_for(work, CALL_SECONDS))

    async def _open(self) -> None:
        self._watch = await asyncpg.connect(driver_url(self.url))
        self._lane = Lane(DatabaseSettings(url=self.url), "soak-upkeep")
        self._sweep = self._new_sweep()
        self._due = DueTasks(self._lane, lambda _: None, interval_seconds=0.001)
        for _ in range(SERVERS):
            server, client = await self._serve()
            self._servers.append(server)
            self.clients.append(client)

    async def _serve(self) -> tuple[ContextServer, Tasks]:
        server = ContextServer("task", "127.0.0.1:0", await mount(SETTINGS, common_settings(self.url)))
        return server, Tasks(await server.start())

    def _new_sweep(self) -> Sweep:
        self._patience.doubt()
        return Sweep(
            self._lane, TypeLimits(SETTINGS), lambda _: None, interval_seconds=100, patience=self._patience
        )

    async def begin(self) -> None:
        """Forget everything: an empty queue, and a sweeper that has heard nobody yet."""
        await self._watch.execute(_EMPTY)
        self._sweep = self._new_sweep()

    async def restart(self, which: int) -> None:
        """Stop a server without grace and start another in its place."""
        await self.clients[which].close()
        await self._servers[which].stop(grace_seconds=0)
        self._servers[which], self.clients[which] = await self._serve()

    async def restart_sweeper(self) -> None:
        """Put a sweeper in place that has just started."""
        self._sweep = self._new_sweep()

    async def cut(self) -> None:
        """Terminate every connection the servers and the sweeper have to the database."""
        await self._watch.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {_OTHERS}")

    async def step_clock(self, seconds: float) -> None:
        """Let time pass for everything that is stored, and let what fell due in."""
        await self._watch.execute(_MOVE, timedelta(seconds=seconds))
        self._patience.ahead_seconds += seconds
        await self._due.step()

    async def sweep(self) -> None:
        """Let the sweeper look once."""
        await self._sweep.step()

    async def settled(self) -> None:
        """Wait until no call is in a server's hands and nothing it began for one is under way."""
        for server, client in zip(self._servers, self.clients, strict=True):
            await server.in_flight.drained(CALL_SECONDS)
            # What was claimed for a caller who went away is given back behind it in the same queue as this.
            await client.claim("nothing", count=0)

    async def look(self) -> State:
        """Return what stands in the database now."""
        return State(
            tasks=await self._watch.fetch(_LOOK),
            runs=await self._watch.fetch("SELECT * FROM task.task_runs"),
            counts={row["type"]: dict(row) for row in await self._watch.fetch(_COUNTS)},
            policies={
                row["type"]: row for row in await self._watch.fetch("SELECT * FROM task.queue_policies")
            },
        )

    def close(self) -> None:
        """Stop all of it."""
        self.run(self._close())
        self._loop.close()

    async def _close(self) -> None:
        for client, server in zip(self.clients, self._servers, strict=True):
            await client.close()
            await server.stop(grace_seconds=0)
        await self._lane.close()
        await self._watch.close()
