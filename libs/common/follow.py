"""Follow tasks of the task service from the context whose rows they work for (domain.md 2.2).

By level, not by event: each look compares what the task service says now with what the context has
seen, so a lost, doubled or late signal changes nothing but the time of the look. What the stream says
is as good as an answer, for any row. While it flows, a look asks only for a slice of the rows, so that a
long queue costs no more than a short one; else for all. Of the failed ones, which only grow in number, a
look asks for the newest and for some of the others in turn.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import NamedTuple, Protocol

import structlog

from libs.common.db import is_transient
from libs.common.loops import Periodic, backoff_seconds, is_cancelled
from libs.common.tasks import TaskPeer, TaskView

log = structlog.get_logger(__name__)

_SLICE = 1_000
# What a watched task must be in to be worth a look: the other states change nothing here.
_TELLING = frozenset({"pending", "failed", "cancelled"})


class Followed(NamedTuple):
    """A row of a context and the task that works for it now."""

    owner_id: str
    task_id: str
    seen_version: int
    """The newest version of that task on which the context has acted; 0 for a new task."""


class FollowSource(Protocol):
    """What a context tells the follower and lets it do.

    Both writes are guarded UPDATEs: they take effect only while ``task_id`` is the row's current task,
    ``version`` is newer than the version seen (which they set) and the row is not completed. Called
    again, or too late, they change nothing.
    """

    async def current(self) -> Sequence[Followed]:
        """Return the rows that have not ended and the newest failed ones, each with its current task.

        A person may retry the task of a failed row. A completed row is never returned.
        """

    async def failed_of(self, task_ids: Sequence[str]) -> Sequence[Followed]:
        """Return the failed rows whose current task is one of these."""

    async def failed_after(self, row: "Followed | None") -> Sequence[Followed]:
        """Return the next some failed rows behind one, in a lasting order; None: from the beginning.

        Empty when there is none behind it.
        """

    async def requeued(self, owner_id: str, task_id: str, version: int) -> None:
        """Put the row back to pending and fence its old run off: the task waits for a worker again."""

    async def ended(self, owner_id: str, task_id: str, version: int, reason: str, message: str) -> None:
        """Fail the row: its task failed or was cancelled.

        ``reason`` is ``CANCELLED``, what the task service gives (``ABANDONED`` ...), or ``FAILED``.
        """


class Follower:
    """A loop that compares at every wake and at least every ``interval_seconds``."""

    def __init__(
        self,
        peer: TaskPeer,
        source: FollowSource,
        *,
        types: Sequence[str] = (),
        interval_seconds: float = 3.0,
        name: str = "follow",
    ) -> None:
        """Follow the tasks of ``source``; ``types`` narrows what is watched for wakes (empty: all types)."""
        self._peer = peer
        self._source = source
        self._types = tuple(types)
        self._name = name
        self._looks = Periodic(name, interval_seconds, self.look)
        self._watching: asyncio.Task[None] | None = None
        self._stream: object | None = None
        self._caught_up = False
        self._news: dict[str, TaskView] = {}
        self._asked_up_to = ""
        self._failed_up_to: Followed | None = None

    def wake(self) -> None:
        """Ask for a look soon."""
        self._looks.wake()

    async def start(self) -> None:
        """Look at once, then at each wake and each interval."""
        await self._looks.start()
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name=f"{self._name}:watch")

    async def stop(self) -> None:
        """End the stream and let the look in hand finish."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await self._looks.stop()

    async def look(self) -> None:
        """Compare every followed row with its task once, and act where the task is ahead.

        Once all were asked for since the stream opened: those it has spoken of, and the next 1,000 in turn.
        Of the failed ones besides the newest some more in turn, whether it flows or not.
        """
        news, self._news = self._news, {}
        stream = self._stream
        caught_up, self._caught_up = self._caught_up, False
        followed = await self._source.current()
        known = {row.task_id for row in followed}
        turn = [row for row in await self._failed_in_turn() if row.task_id not in known]
        asked = [*(self._next_slice(followed) if stream is not None and caught_up else followed), *turn]
        views = {view.task_id: view for view in await self._peer.statuses([row.task_id for row in asked])}
        known.update(row.task_id for row in turn)
        retried = await self._failed_of([task_id for task_id in news if task_id not in known])
        for row in (*followed, *turn, *retried):
            # no view: not asked for, not brought there by the outbox yet, or purged with the finished tasks
            told = [view for view in (views.get(row.task_id), news.get(row.task_id)) if view is not None]
            view = max(told, key=lambda view: view.version, default=None)
            if view is not None and view.version > row.seen_version:
                await self._act_kept_apart(row, view)
        self._caught_up = stream is not None and self._stream is stream

    def _next_slice(self, followed: Sequence[Followed]) -> Sequence[Followed]:
        """Return those whose turn it is; every row's turn comes."""
        rows = sorted(followed, key=lambda row: row.owner_id)
        later = [row for row in rows if row.owner_id > self._asked_up_to]
        found = [*later[:_SLICE], *rows[: max(0, _SLICE - len(later))]][: len(rows)]
        self._asked_up_to = found[-1].owner_id if found else ""
        return found

    async def _failed_in_turn(self) -> Sequence[Followed]:
        found = await self._source.failed_after(self._failed_up_to)
        self._failed_up_to = found[-1] if found else None
        return found

    async def _failed_of(self, task_ids: Sequence[str]) -> list[Followed]:
        """Return the failed rows that the stream has spoken of: tasks are retried however old they are."""
        slices = (task_ids[start : start + _SLICE] for start in range(0, len(task_ids), _SLICE))
        return [row for some in slices for row in await self._source.failed_of(some)]

    async def _act_kept_apart(self, row: Followed, view: TaskView) -> None:
        """Act on one row; what one row's data breaks must not hold up the others."""
        try:
            await self._act(row, view)
        except Exception as error:
            if is_transient(error):
                raise  # the database is away: that is everybody's, and the loop backs off
            log.exception("follow.row_failed", loop=self._name, owner_id=row.owner_id, task_id=row.task_id)

    async def _act(self, row: Followed, view: TaskView) -> None:
        if view.status == "pending":
            await self._source.requeued(row.owner_id, row.task_id, view.version)
            log.info("follow.requeued", owner_id=row.owner_id, task_id=row.task_id, version=view.version)
        elif view.status in {"failed", "cancelled"}:
            reason = "CANCELLED" if view.status == "cancelled" else view.status_reason or "FAILED"
            await self._source.ended(row.owner_id, row.task_id, view.version, reason, view.error_message)
            log.info(
                "follow.ended",
                owner_id=row.owner_id,
                task_id=row.task_id,
                version=view.version,
                reason=reason,
            )
        # processing and completed: the worker's own writes to the context are what counts

    def _opened(self) -> None:
        self._stream = object()
        self.wake()  # what happened while nobody watched

    async def _watch(self) -> None:
        """Take in what the task service's stream says; the interval is the guarantee when it is down."""
        failures = 0
        while True:
            try:
                watched = self._peer.watch(types=self._types, min_version=1, on_open=self._opened)
                async with aclosing(watched) as views:
                    async for view in views:
                        failures = 0
                        if view.status in _TELLING and view.version > 0:
                            self._news[view.task_id] = view
                            self.wake()
                log.debug("follow.watch_ended", loop=self._name)
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                log.warning("follow.watch_broken", loop=self._name, error="the call was cancelled")
            except Exception as error:  # noqa: BLE001 - logged; the interval stands in for the stream
                log.warning("follow.watch_broken", loop=self._name, error=repr(error)[:500])
            self._stream, self._caught_up = None, False
            failures += 1
            await asyncio.sleep(backoff_seconds(failures))
