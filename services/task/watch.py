"""Follow tasks by level: the present state first, then each change, several together as the last of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping

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
    """What one stream has to look at: some ids, or everything."""

    def __init__(self) -> None:
        self.changed: set[UUID] = set()
        self.everything = False
        self.wanted = asyncio.Event()

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
        watcher = _Watcher()
        # Before the first look: what changes during it is looked at again.
        self._watchers.add(watcher)
        seen: dict[UUID, tuple[Any, ...]] = {}
        try:
            watcher.note(None)
            while not self._stopping:
                async for row in self._look(watcher, wanted, seen):
                    yield row
                await self._pause(watcher)
        finally:
            self._watchers.discard(watcher)
        raise ServerStopping("the server stops; start the watch again", retry_delay_seconds=1.0)

    async def _pause(self, watcher: _Watcher) -> None:
        """Wait for a change, or for the time of a look without one; then let changes gather for a moment."""
        longest = LOOK_SECONDS if self._listening() else self._poll_seconds
        try:
            await asyncio.wait_for(watcher.wanted.wait(), longest)
        except TimeoutError:
            watcher.note(None)
        if not self._stopping:
            await asyncio.sleep(GAP_SECONDS)

    async def _look(
        self, watcher: _Watcher, wanted: TaskFilter, seen: dict[UUID, tuple[Any, ...]]
    ) -> AsyncIterator[RowMapping]:
        changed, everything = watcher.take()
        if everything:
            changed = list(wanted.task_ids) or await self._different(wanted, seen)
        elif wanted.task_ids:
            changed = [task_id for task_id in changed if task_id in set(wanted.task_ids)]
        for start in range(0, len(changed), PAGE):
            async with self._database.begin() as session:
                rows = await repository_watch.look(session, wanted, changed[start : start + PAGE])
            for row, matches in rows:
                if _news(row, seen, matches=matches, named=bool(wanted.task_ids)):
                    yield row

    async def _different(self, wanted: TaskFilter, seen: Mapping[UUID, tuple[Any, ...]]) -> list[UUID]:
        """Return the tasks that aren't as they were last sent: new, changed, or no longer among them."""
        different: list[UUID] = []
        gone = set(seen)
        async with self._database.begin() as session:
            async for task_id, signature in repository_watch.unfinished(session, wanted):
                gone.discard(task_id)
                if seen.get(task_id) != signature:
                    different.append(task_id)
        return [*different, *gone]


def _news(row: RowMapping, seen: dict[UUID, tuple[Any, ...]], *, matches: bool, named: bool) -> bool:
    """Tell whether the watcher must be sent this row, and remember it.

    A task that no longer matches, or never did, is of interest only if the watcher knows it. Finished tasks
    are kept in mind only when they are named by id: they stay in what such a watch looks at.
    """
    task_id = row["id"]
    before = seen.get(task_id)
    if before is None and not matches:
        return False
    now = tuple(row[name] for name in SIGNATURE)
    if before == now:
        return False
    seen[task_id] = now
    if not matches or (row["status"] in FINAL and not named):
        # Sent a last time. A later retry is news again, since it matches then.
        del seen[task_id]
    return True
