"""Follow tasks of the task service from the context whose rows they work for (domain.md 2.2).

By level, not by event: each look compares what the task service says now with what the context has
seen, so a lost, doubled or late signal changes nothing but the time of the look.
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

_BATCH = 500
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
        """Return the rows whose task may still say something, each with its current task.

        Completed rows never; failed ones too, at least the recent: a person may retry their task.
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
        """Compare every followed row with its task once, and act where the task is ahead."""
        followed = await self._source.current()
        for start in range(0, len(followed), _BATCH):
            batch = followed[start : start + _BATCH]
            views = {view.task_id: view for view in await self._peer.statuses([row.task_id for row in batch])}
            for row in batch:
                # no view: the outbox has not brought the task there yet, or finished tasks were purged
                view = views.get(row.task_id)
                if view is not None and view.version > row.seen_version:
                    await self._act_kept_apart(row, view)

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

    async def _watch(self) -> None:
        """Turn the task service's stream into wakes; the interval is the guarantee when it is down."""
        failures = 0
        while True:
            try:
                async with aclosing(self._peer.watch(types=self._types)) as views:
                    self.wake()  # what happened while nobody watched
                    async for view in views:
                        failures = 0
                        if view.status in _TELLING and view.version > 0:
                            self.wake()
                log.debug("follow.watch_ended", loop=self._name)
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                log.warning("follow.watch_broken", loop=self._name, error="the call was cancelled")
            except Exception as error:  # noqa: BLE001 - logged; the interval stands in for the stream
                log.warning("follow.watch_broken", loop=self._name, error=repr(error)[:500])
            failures += 1
            await asyncio.sleep(backoff_seconds(failures))
