"""What a claim waited for its turn says nothing of how long a look takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from uuid import uuid4

import asyncpg
import pytest

from libs.common.lane import Connection
from libs.common.testing import eventually
from services.task.repository_claim import Marks, first_look
from services.task.repository_end import Backoff, Ending
from services.task.repository_work import end_and_claim
from services.task.states import End
from tests.integration.task.service import new_type

_WAITS = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1"


class _Noting(Marks):
    """Marks that keep what they are told of looks, in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def looked(self, task_type: str, mark: datetime, seconds: float) -> None:
        super().looked(task_type, mark, seconds)
        self.seconds.append(seconds)


async def _claim(connection: Connection, kind: str, marks: Marks) -> None:
    await first_look(connection, kind, ["w"], marks)


async def _finish_and_claim(connection: Connection, kind: str, marks: Marks) -> None:
    run = await connection.fetchrow(
        """INSERT INTO task.tasks (id, type, max_attempts, content_sha256, claim_order, status, version,
               claimed_by, started_at, heartbeat_at, progress_at)
           VALUES ($1, $2, 5, '', now(), 'processing', 1, 'w', now(), now(), now()) RETURNING id, version""",
        uuid4(),
        kind,
    )
    assert run is not None
    endings = [Ending(run["id"], run["version"], End.COMPLETED)]
    await end_and_claim(connection, endings, Backoff(1, 1), (kind, ["w"]), marks)


@pytest.mark.parametrize("claim", [_claim, _finish_and_claim])
async def test_the_wait_for_the_policy_is_no_part_of_a_look(
    database_url: str, claim: Callable[[Connection, str, Marks], Awaitable[None]]
) -> None:
    claimer, holder = [await asyncpg.connect(database_url) for _ in range(2)]
    kind, marks = new_type(), _Noting()
    await holder.execute("INSERT INTO task.queue_policies (type) VALUES ($1)", kind)
    async with holder.transaction():
        await holder.execute("SELECT FROM task.queue_policies WHERE type = $1 FOR UPDATE", kind)
        began = time.monotonic()
        claiming = asyncio.ensure_future(claim(claimer, kind, marks))
        await eventually(lambda: holder.fetchval(_WAITS, claimer.get_server_pid()))
        waits_since = time.monotonic()
        await holder.execute("SELECT pg_sleep(0.2)")
        waited = time.monotonic() - waits_since
    await claiming
    [seconds] = marks.seconds
    assert 0 < seconds <= time.monotonic() - began - waited
    await claimer.close()
    await holder.close()
