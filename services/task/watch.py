"""Follow tasks by level: the present state first, then each change, several together as the last of them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database
from services.task import repository_watch
from services.task.errors import ServerStopping
from services.task.repository import TaskFilter
from services.task.repository_watch import SIGNATURE
from services.task.states import FINAL

GAP_SECONDS = 0.1
PAGE = 500
LOOK_SECONDS = 15.0


class _Watcher:
    """What one stream has to look at, some ids or everything, and what it was told.

    `seen` is how the tasks stand that it knows, finished ones only where it named them; `ended` is how those
    stand that finished since `ends_since`, as they were sent; None before the first look.
    """

    def __init__(self, wanted: TaskFilter) -> None:
        self.filter = wanted
        self.named = frozenset(wanted.task_ids)
        self.changed: set[UUID] = set()
        self.everything = False
        self.wanted = asyncio.Event()
        self.seen: dict[UUID, tuple[Any, ...]] = {}
        self.ended: dict[UUID, tuple[Any, ...]] = {}
        self.ends_since: datetime | None = None
        self.ends_looked_for = -math.inf

    def note(self, task_ids: Sequence[UUID] | None) -> None:
        if task_ids is None or len(self.changed) + len(task_ids) > 10_000:
            self.everything = True
            self.changed.clear()
        elif not self.everything:
            self.changed.update(task_ids)
        self.wanted.set()

    def take(self) -> tuple[list[UUID], bool]:
        changed, everything = list(self.changed), self.everything
        self.changed.clear()
        self.everything = False
        self.wanted.clear()
        return changed, everything


class WatchHub:
    """The streams of this server. `listening` tells whether changes made by other servers are heard."""

    def __init__(self, database: Database, *, poll_seconds: float, listening: Callable[[], bool]) -> None:
        self._database = database
        self._poll_seconds = poll_seconds
        self._listening = listening
        self._watchers: set[_Watcher] = set()
        self._stopping = False

    def changed(self, task_ids: Sequence[UUID] | None) -> None:
        """Tell every stream which tasks changed; None: anything may have."""
        for watcher in self._watchers:
            watcher.note(task_ids)

    def stop(self) -> None:
        """End every stream."""
        self._stopping = True
        self.changed(None)

    async def watch(self, wanted: TaskFilter) -> AsyncIterator[RowMapping]:
        """Yield tasks as rows without payload, for as long as the caller reads.

        Raises:
            ServerStopping: this server stops; start again with the same filter.
        """
        watcher = _Watcher(wanted)
        # Before the first look: what changes during it is looked at again.
        self._watchers.add(watcher)
        try:
            watcher.note(None)
            while not self._stopping:
                async for row in self._look(watcher):
                    yield row
                await self._pause(watcher)
        finally:
            self._watchers.discard(watcher)
        raise ServerStopping("the server stops; start the watch again", retry_delay_seconds=1.0)

    def _longest_pause_seconds(self) -> float:
        return LOOK_SECONDS if self._listening() else self._poll_seconds

    async def _pause(self, watcher: _Watcher) -> None:
        """Wait for a change, or for the time of a look without one; then let changes gather for a moment."""
        try:
            await asyncio.wait_for(watcher.wanted.wait(), self._longest_pause_seconds())
        except TimeoutError:
            watcher.note(None)
        if not self._stopping:
            await asyncio.sleep(GAP_SECONDS)

    async def _look(self, watcher: _Watcher) -> AsyncIterator[RowMapping]:
        changed, everything = watcher.take()
        ends_are_due = time.monotonic() - watcher.ends_looked_for >= self._longest_pause_seconds()
        if everything or ends_are_due:
            changed = list(watcher.named) or await self._different(watcher, with_ends=ends_are_due)
        elif watcher.named:
            changed = [task_id for task_id in changed if task_id in watcher.named]
        for start in range(0, len(changed), PAGE):
            async with self._database.begin() as session:
                rows = await repository_watch.look(session, watcher.filter, changed[start : start + PAGE])
            for row, matches in rows:
                if _news(row, watcher, matches=matches):
                    yield row

    async def _different(self, watcher: _Watcher, *, with_ends: bool) -> list[UUID]:
        """Return the tasks that aren't as they were last sent: new, changed, or no longer among them.

        `with_ends`: also those that have finished since that was last looked for. What a person retries may
        have finished again before anybody looked, and then nothing else tells of it.
        """
        different: list[UUID] = []
        gone = set(watcher.seen)
        async with self._database.begin() as session:
            if with_ends:
                different += await self._new_ends(session, watcher)
            async for task_id, signature in repository_watch.unfinished(session, watcher.filter):
                gone.discard(task_id)
                if watcher.seen.get(task_id) != signature:
                    different.append(task_id)
        return list(dict.fromkeys([*different, *gone]))

    async def _new_ends(self, session: AsyncSession, watcher: _Watcher) -> list[UUID]:
        began = time.monotonic()
        if watcher.ends_since is None:
            watcher.ends_since = await repository_watch.moment(session)
            watcher.ends_looked_for = began
            return []
        ends, watcher.ends_since = await repository_watch.ended(session, watcher.filter, watcher.ends_since)
        new = [task_id for task_id, signature in ends.items() if watcher.ended.get(task_id) != signature]
        watcher.ended = {task_id: told for task_id, told in watcher.ended.items() if task_id in ends}
        watcher.ends_looked_for = began
        return new


def _news(row: RowMapping, watcher: _Watcher, *, matches: bool) -> bool:
    """Tell whether the watcher must be sent this row, and remember it.

    A task that no longer matches, or never did, is of interest only if the watcher knows it. Finished tasks
    stay known only when they are named by id: they stay in what such a watch looks at.
    """
    task_id = row["id"]
    before = watcher.seen.get(task_id)
    if before is None and not matches:
        return False
    now = tuple(row[name] for name in SIGNATURE)
    if now in {before, watcher.ended.get(task_id)}:
        return False
    watcher.seen[task_id] = now
    finished = row["status"] in FINAL and not watcher.named
    if finished:
        watcher.ended[task_id] = now
    if finished or not matches:
        # Sent a last time. A later retry is news again, since it matches then.
        del watcher.seen[task_id]
    return True
