"""Say why a claim came back empty (domain.md 1.2)."""

from __future__ import annotations

import time
from typing import Literal

from libs.common.db import Database
from services.task import repository_queue
from services.task.waiters import Types

Reason = Literal["empty", "paused", "limit", "due_later"]

KEPT_SECONDS = 0.5


class IdleReasons:
    """Answers from the database, at most twice a second for one set of types."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[Types, tuple[float, Reason]] = {}

    async def of(self, types: Types) -> Reason:
        """Return why nothing of these types could be claimed just now: what would have to change first."""
        now = time.monotonic()
        kept = self._kept.get(types)
        if kept is not None and now - kept[0] < KEPT_SECONDS:
            return kept[1]
        async with self._database.begin() as session:
            rows = await repository_queue.idle(session, types)
        reason: Reason = "empty"
        if any(row["claimable"] and row["full"] for row in rows):
            reason = "limit"
        if any(row["claimable"] and row["paused"] for row in rows):
            reason = "paused"
        if reason == "empty" and any(row["later"] for row in rows):
            reason = "due_later"
        if len(self._kept) > 1_000:
            self._kept.clear()
        self._kept[types] = (now, reason)
        return reason

    def forget(self) -> None:
        """Ask the database again: a policy has changed."""
        self._kept.clear()
