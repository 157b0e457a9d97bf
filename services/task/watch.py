"""Follow tasks by level: the present state first, then each change, several together as the last of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database
from services.task import repository_watch
from services.task.errors import ServerStopping
from services.task.repository import TaskFilter, walk_no_table
from services.task.repository_watch import SIGNATURE
from services.task.states import FINAL, Status

GAP_SECONDS = 0.1
PAGE = 500
LOOK_SECONDS = 15.0
MOST_ENDS = 10_000
MOST_CHANGED = 10_000


class _Watcher:
    """What one stream has to look at, some ids or everything, and what it was told.

    `seen` is how the tasks stand that it knows, finished ones only where it named them. `ended` is how the
    last ones that failed or were cancelled were sent: a person may retry them. Tasks below `min_version` are
    known and not told.
    """

    def __init__(self, wanted: TaskFilter, min_version: int) -> None:
        self.filter = wanted
        self.min_version = min_version
        self.named = frozenset(wanted.task_ids)
        self.changed: set[UUID] = set()
        self.everything = False
        self.wanted = asyncio.Event()
        self.seen: dict[UUID, tuple[Any, ...]] = {}
        self.ended: dict[UUID, tuple[Any, ...]] = {}
        self.ends_looked_at = time.monotonic()

    def forget(self, task_id: UUID) -> tuple[Any, ...] | None:
        """Return how the task was last sent, None when it isn't known; nothing is known of it then."""
        ended = self.ended.pop(task_id, None)
        return self.seen.pop(task_id, ended)

    def remember(self, task_id: UUID, status: str, signature: tuple[Any, ...]) -> None:
        """Keep in mind how the task stands, as long as it may change; a completed one doesn't."""
        if self.named or status not in FINAL:
            self.seen[task_id] = signature
        elif status != Status.COMPLETED:
            self.ended[task_id] = signature
            if len(self.ended) > MOST_ENDS:
                del self.ended[next(iter(self.ended))]

    def note(self, task_ids: Sequence[UUID] | None) -> None:
        """Want a look at these tasks, None: at everything.

        Both at once are kept: what came and has finished since the last look is found by its id alone.
        """
        if task_ids is None:
            self.everything = True
        elif len(self.changed) + len(task_ids) > MOST_CHANGED:
            self.everything = True
            self.changed.clear()
        else:
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

    def added(self, task_ids: Sequence[UUID]) -> None:
        """Tell the streams that want them which tasks are new and wait to be claimed."""
        for watcher in self._watchers:
            if watcher.min_version < 1:
                watcher.note(task_ids)

    def stop(self) -> None:
        """End every stream."""
        self._stopping = True
        self.changed(None)

    async def watch(
        self, wanted: TaskFilter, *, min_version: int = 0, on_added: Callable[[], Awaitable[None]]
    ) -> AsyncIterator[RowMapping]:
        """Yield tasks as rows without payload, for as long as the caller reads.

        Those below `min_version` are left out until something happens to them. `on_added` is awaited first:
        whatever changes from then on is told.

        Raises:
            ServerStopping: this server stops; start again with the same filter.
        """
        watcher = _Watcher(wanted, min_version)
        # Before the first look: what changes during it is looked at again.
        self._watchers.add(watcher)
        try:
            watcher.note(None)
            await on_added()
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
        ends_are_due = time.monotonic() - watcher.ends_looked_at >= self._longest_pause_seconds()
        at_all = everything or ends_are_due
        if watcher.named:
            changed = [*watcher.named] if at_all else [*watcher.named.intersection(changed)]
        elif at_all:
            different = await self._different(watcher, with_ends=ends_are_due)
            changed = list(dict.fromkeys([*changed, *different]))
        for start in range(0, len(changed), PAGE):
            async with self._database.begin() as session:
                rows = await repository_watch.look(session, watcher.filter, changed[start : start + PAGE])
            for row, matches in rows:
                if _news(row, watcher, matches=matches) and row["version"] >= watcher.min_version:
                    yield row

    async def _different(self, watcher: _Watcher, *, with_ends: bool) -> list[UUID]:
        """Return the tasks that aren't as they were last sent: new, changed, or no longer among them.

        `with_ends`: also those that were sent as failed or cancelled. What a person retries may have finished
        again before anybody looked, and then nothing else tells of it.
        """
        different: list[UUID] = []
        gone = set(watcher.seen)
        async with self._database.begin() as session:
            await walk_no_table(session)
            if with_ends:
                different += await self._ended_anew(session, watcher)
            async for task_id, signature in repository_watch.unfinished(session, watcher.filter):
                gone.discard(task_id)
                if signature[0] < watcher.min_version:
                    watcher.seen[task_id] = signature
                elif watcher.seen.get(task_id) != signature:
                    different.append(task_id)
        return list(dict.fromkeys([*different, *gone]))

    async def _ended_anew(self, session: AsyncSession, watcher: _Watcher) -> list[UUID]:
        watcher.ends_looked_at = time.monotonic()
        now = await repository_watch.standing(session, list(watcher.ended))
        for task_id in watcher.ended.keys() - now.keys():
            del watcher.ended[task_id]  # too old to be kept
        return [task_id for task_id, told in watcher.ended.items() if now[task_id] != told]


def _news(row: RowMapping, watcher: _Watcher, *, matches: bool) -> bool:
    """Tell whether the watcher must be sent this row, and remember it.

    A task that no longer matches is sent a last time; one that never did is of no interest.
    """
    before = watcher.forget(row["id"])
    now = tuple(row[name] for name in SIGNATURE)
    if matches:
        watcher.remember(row["id"], row["status"], now)
    return matches if before is None else before != now
