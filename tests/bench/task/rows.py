"""Put many tasks into the database at once, as the service would have left them."""

from __future__ import annotations

import asyncpg

# An id in the order of creation: 48 bits of number, then the version and variant bits of UUIDv7.
_ID = "(lpad(to_hex({number}), 12, '0') || '7000800000000000' || '0000')::uuid"

_PENDING = f"""
INSERT INTO task.tasks (id, type, max_attempts, content_sha256, created_at, queued_at, claim_order)
SELECT {_ID.format(number="n")}, $1, 5, '\\x00', at, at, at
FROM generate_series($2::int8, $3::int8) n,
    LATERAL (SELECT $4::timestamptz + (n - $5::int8) * interval '1 microsecond' AS at) o
"""

_FINISHED = f"""
WITH made AS (
    INSERT INTO task.tasks (id, type, status, version, attempts, max_attempts, progress, content_sha256,
        last_worker, created_at, queued_at, claim_order, started_at, heartbeat_at, progress_at, completed_at)
    SELECT {_ID.format(number="n")}, $1, 'completed', 2, 1, 5, 100, '\\x00', 'bench', at, at, at,
        at + interval '1 s', at + interval '1 s', at + interval '1 s', at + interval '2 s'
    FROM generate_series($2::int8, $3::int8) n,
        LATERAL (SELECT $4::timestamptz + (n - $5::int8) * interval '1 microsecond' AS at) o
    RETURNING id, started_at, completed_at
)
INSERT INTO task.task_runs (task_id, version, worker_id, started_at, ended_at, ended_as, outcome)
SELECT id, 1, 'bench', started_at, completed_at, 'completed', 'applied' FROM made
"""

CHUNK = 100_000


class Rows:
    """Inserts tasks with ids and times that rise, the first so many seconds old."""

    def __init__(
        self, connection: asyncpg.Connection[asyncpg.Record], *, first: int = 1, age_seconds: float = 86_400.0
    ) -> None:
        self._connection = connection
        self._next = first
        self._age_seconds = age_seconds

    async def pending(self, task_type: str, count: int) -> None:
        """Add tasks that wait."""
        await self._insert(_PENDING, task_type, count)
        await self._count("pending", task_type, count)

    async def finished(self, task_type: str, count: int) -> None:
        """Add tasks that were completed, with the records of their runs."""
        await self._insert(_FINISHED, task_type, count)
        await self._count("completed", task_type, count)

    async def _count(self, level: str, task_type: str, count: int) -> None:
        await self._connection.execute(
            f"INSERT INTO task.queue_deltas (type, {level}) VALUES ($1, $2)", task_type, count
        )

    async def _insert(self, statement: str, task_type: str, count: int) -> None:
        base = await self._connection.fetchval("SELECT now() - make_interval(secs => $1)", self._age_seconds)
        first, last = self._next, self._next + count - 1
        while self._next <= last:
            upto = min(self._next + CHUNK - 1, last)
            await self._connection.execute(statement, task_type, self._next, upto, base, first)
            self._next = upto + 1
