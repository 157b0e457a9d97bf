"""Set the policy of a type, the first one without stopping anybody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from libs.common.db import Database
from services.task import repository_queue
from services.task.errors import QueueBusy
from services.task.repository_queue import Policy

LONGEST_WAIT_SECONDS = 5.0
LOOK_SECONDS = 0.02


async def set_policy(
    database: Database, task_type: str, values: Mapping[str, Any], by: str, *, usual_lease_seconds: float
) -> Policy:
    """Store the given fields of a type's policy; return the whole.

    From its row's commit on, claims and ends keep its count of runs. A first policy waits for those that
    began before and can't see the row, then counts; whatever begins meanwhile waits for nobody.

    Raises:
        QueueBusy: a transaction that began before goes on for too long; nothing of the policy holds yet.
    """
    async with database.begin() as session:
        counted = await repository_queue.open_policy(session, task_type)
    if not counted:
        await _outlast_writers(database)
    async with database.begin() as session:
        return await repository_queue.set_policy(
            session, task_type, values, by, usual_lease_seconds=usual_lease_seconds
        )


async def _outlast_writers(database: Database) -> None:
    """Wait until no transaction that writes tasks now does so any more."""
    until = time.monotonic() + LONGEST_WAIT_SECONDS
    async with database.statements() as session:
        before = await repository_queue.writers(session)
        while before:
            if time.monotonic() > until:
                raise QueueBusy(
                    "a transaction that began before this policy still writes to the queue; repeat the call",
                    retry_delay_seconds=LONGEST_WAIT_SECONDS,
                )
            await asyncio.sleep(LOOK_SECONDS)
            before &= await repository_queue.writers(session)
