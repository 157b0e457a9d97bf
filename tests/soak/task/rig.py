"""The real thing under the machine: two task servers, a sweeper and PostgreSQL, with a clock that steps.

Database time is the only clock of the queue, so a step of the clock moves every stored time back. The servers
themselves never sweep (their sweep comes every ten minutes and wants to have listened for longer than any
check lasts); the machine runs the sweep by hand, with a patience that lives on the stepped clock.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import asyncpg
from sqlalchemy.exc import DBAPIError

from libs.common.context_server import ContextServer
from libs.common.lane import Lane, driver_url
from libs.common.settings import DatabaseSettings
from services.task.limits import TypeLimits
from services.task.loops.due import DueTasks
from services.task.loops.patience import Patience
from services.task.loops.retention import Retention
from services.task.loops.sweep import Sweep
from services.task.models import LEVELS
from services.task.mount import mount
from services.task.repository_end import Ended
from services.task.settings import TaskSettings
from tests.integration.task.service import Tasks, common_settings
from tests.soak.task import terms

T = TypeVar("T")

CALL_SECONDS = 60.0
SERVERS = 2
_WATCH = "/frontrow.task.v1.TaskService/WatchTasks"
SETTINGS = TaskSettings(
    lease_seconds=terms.LEASES["quick"],
    lease_seconds_by_type={"slow": terms.LEASES["slow"]},
    stall_seconds=terms.STALLS["quick"],
    stall_seconds_by_type={"slow": terms.STALLS["slow"]},
    lost_claim_seconds=terms.LOST_CLAIM,
    retry_base_seconds=terms.BACKOFF,
    retry_longest_seconds=terms.BACKOFF,
    max_attempts=terms.ATTEMPTS,
    keep_finished_days=terms.KEEP / 86_400,
    sweep_interval_seconds=600,
    due_interval_seconds=600,
)
_MOVE = """
UPDATE task.tasks SET started_at = started_at - $1::interval, heartbeat_at = heartbeat_at - $1::interval,
    progress_at = progress_at - $1::interval, due_at = due_at - $1::interval,
    run_after = run_after - $1::interval, completed_at = completed_at - $1::interval
"""
_MOVE_POLICIES = "UPDATE task.queue_policies SET longer_lease_until = longer_lease_until - $1::interval"
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
        self.database_ahead_seconds = 0.0
        super().__init__(longest_gap_seconds=terms.LONGEST_GAP, monotonic=self.stepped)

    def stepped(self) -> float:
        """Return this machine's clock, in seconds."""
        return time.monotonic() + self.ahead_seconds

    def observe(self, database_time: datetime) -> float:
        """Note an answer of the database, at the stepped time and with the jumps of its own clock."""
        shown = self.stepped() + self.database_ahead_seconds
        return super().observe(datetime.fromtimestamp(0, UTC) + timedelta(seconds=shown))


class Rig:
    """Runs in an event loop of its own, which only moves inside `run`."""

    def __init__(self, database_url: str) -> None:
        self.url = database_url
        self.steps = 0
        self._loop = asyncio.new_event_loop()
        self._servers: list[ContextServer] = []
        self._parts: list[Any] = []
        self._spawned: set[asyncio.Task[None]] = set()
        self.clients: list[Tasks] = []
        self._patience = _SteppedPatience()
        self.run(self._open())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work in the rig's loop."""
        return self._loop.run_until_complete(asyncio.wait_for(work, CALL_SECONDS))

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something in the rig's loop whenever that moves."""
        task = self._loop.create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)
        return task

    @staticmethod
    async def moment() -> None:
        """Let others come first."""
        await asyncio.sleep(0.01)

    async def _open(self) -> None:
        self._watch = await asyncpg.connect(driver_url(self.url))
        self._lane = Lane(DatabaseSettings(url=self.url), "soak-upkeep")
        self._limits = TypeLimits(SETTINGS)
        self._sweep = self._new_sweep()
        self._due = DueTasks(
            self._lane, lambda found: self._parts[0].signals.tell([], found), interval_seconds=0.001
        )
        self._retention = Retention(self._lane, keep_days=SETTINGS.keep_finished_days, interval_seconds=600)
        for _ in range(SERVERS):
            server, client, parts = await self._serve()
            self._servers.append(server)
            self.clients.append(client)
            self._parts.append(parts)

    async def _serve(self) -> tuple[ContextServer, Tasks, Any]:
        mounted = await mount(SETTINGS, common_settings(self.url))
        # Old tasks go when a rule says so: a server's own look begins with its start and after each failure.
        loops = [loop for loop in mounted.loops if not isinstance(loop, Retention)]
        mounted = dataclasses.replace(mounted, loops=loops)
        server = ContextServer("task", "127.0.0.1:0", mounted)
        # The parts of a server are nobody's business but its own; here they are told what time it is.
        parts = mounted.on_stopping.__self__  # type: ignore[attr-defined]
        return server, Tasks(await server.start()), parts

    def _new_sweep(self) -> Sweep:
        self._patience.doubt()
        return Sweep(
            self._lane,
            self._limits,
            self._tell_ended,
            interval_seconds=100,
            patience=self._patience,
        )

    def _tell_ended(self, ended: Sequence[Ended]) -> None:
        self._parts[0].signals.ended(ended)

    async def begin(self) -> None:
        """Forget everything: an empty queue, and a sweeper that has heard nobody yet."""
        await self._watch.execute(_EMPTY)
        self._limits = TypeLimits(SETTINGS)
        await self.read_policies()
        self._sweep = self._new_sweep()

    async def read_policies(self) -> None:
        """Let every server and the sweeper know what is set now, as the notice of it does a moment later."""
        for parts in self._parts:
            await _patiently(parts.policies.step)
        known = self._parts[0].limits
        self._limits.set_policies({kind: known.policy(kind) for kind in terms.LEASES})

    def forget_why(self, server: int) -> None:
        """Let a server ask anew why a claim comes back empty; it may keep an answer for a while."""
        self._parts[server].idle.forget()

    async def restart(self, which: int) -> None:
        """Stop a server without grace and start another in its place."""
        await self.clients[which].close()
        await self._servers[which].stop(grace_seconds=0)
        self._servers[which], self.clients[which], self._parts[which] = await self._serve()
        await self.read_policies()

    async def restart_sweeper(self) -> None:
        """Put a sweeper in place that has just started."""
        self._sweep = self._new_sweep()

    async def cut(self) -> None:
        """Terminate every connection the servers and the sweeper have to the database."""
        await self._watch.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {_OTHERS}")

    async def step_clock(self, seconds: float) -> None:
        """Let time pass for everything that is stored, and let what fell due in."""
        self._patience.ahead_seconds += seconds
        await self._move(seconds)

    async def jump_clock(self, seconds: float) -> None:
        """Let the database's clock jump, and that of nobody else."""
        self._patience.database_ahead_seconds += seconds
        await self._move(seconds)

    async def _move(self, seconds: float) -> None:
        for statement in (_MOVE, _MOVE_POLICIES):
            await self._watch.execute(statement, timedelta(seconds=seconds))
        await self.read_policies()
        await self._due.step()

    async def retain(self) -> None:
        """Let finished tasks be deleted whose time is over."""
        await self._retention.step()

    async def sweep(self) -> None:
        """Let the sweeper look once."""
        await self._sweep.step()

    async def settled(self) -> None:
        """Wait until no call is in a server's hands and nothing it began for one is under way."""
        for server, client in zip(self._servers, self.clients, strict=True):
            # Watches last; everything else comes to its end.
            while set(server.in_flight.methods) - {_WATCH}:  # noqa: ASYNC110 - a millisecond, thousands of times
                await asyncio.sleep(0.001)
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


async def _patiently(step: Callable[[], Awaitable[None]]) -> None:
    """Take a step that a server takes in a loop of its own: when a connection is broken it tries again."""
    for _ in range(20):
        try:
            await step()
        except (DBAPIError, asyncpg.PostgresConnectionError, OSError):
            continue
        return
    raise AssertionError("the database is there, but a server can't reach it")
