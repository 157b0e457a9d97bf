"""Say why a claim came back empty (domain.md 1.2)."""

from __future__ import annotations

import asyncio
import contextvars
import time
from dataclasses import dataclass
from typing import Literal

from libs.common.db import Database
from services.task import repository_queue
from services.task.waiters import Types

Reason = Literal["empty", "paused", "limit", "due_later"]

KEPT_SECONDS = 30.0
DOUBTFUL_SECONDS = 0.5


@dataclass(slots=True)
class _Answer:
    """A reason, until when it stands, and until when even if something has changed."""

    reason: Reason
    until: float
    at_least_until: float


class IdleReasons:
    """Answers from the database, twice a minute for one set of types while nothing changes.

    The waits of a whole fleet may end at once: who asks meanwhile shares the answer under way.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[Types, _Answer] = {}
        self._asking: dict[Types, asyncio.Task[Reason]] = {}

    async def of(self, types: Types) -> Reason:
        """Return why nothing of these types could be claimed just now: what would have to change first."""
        kept = self._kept.get(types)
        if kept is not None and time.monotonic() < kept.until:
            return kept.reason
        asking = self._asking.get(types)
        if asking is None:
            # A task of its own: the caller that happened to ask first may go away.
            asking = asyncio.create_task(self._ask(types), context=contextvars.Context())
            self._asking[types] = asking
            asking.add_done_callback(lambda _: self._asking.pop(types, None))
        return await asyncio.shield(asking)

    def doubt(self) -> None:
        """Let answers be asked for anew soon: something may have become claimable, or will be."""
        for answer in self._kept.values():
            answer.until = answer.at_least_until

    def forget(self) -> None:
        """Ask the database again: a policy has changed."""
        self._kept.clear()

    async def _ask(self, types: Types) -> Reason:
        now = time.monotonic()
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
        self._kept[types] = _Answer(reason, now + KEPT_SECONDS, now + DOUBTFUL_SECONDS)
        return reason
