"""What the task server counts beside its calls, and how full its queues are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg
from opentelemetry import metrics

from libs.common.tally import OTHER, Level, Tally
from services.task.repository_claim import Claimed
from services.task.repository_end import Ended
from services.task.states import FINAL, Status

MOST_TYPES = 50
"""How many types of work have series of their own; the rest is `other`. Creators choose types."""
CAUSES = ("stale", "stalled", "failed", "released", "reply_lost")
"""Why a task waits again after a run: `Ended.cause` where its status isn't final."""


class TaskMetrics:
    """Counts what has been committed; without a provider of its own it uses the process's."""

    def __init__(self, meters: metrics.MeterProvider | None = None) -> None:
        def tally(name: str, *labels: str, unit: str, description: str) -> Tally:
            return Tally.of(meters, name, labels, unit=unit, description=description)

        def level(name: str, *labels: str, unit: str, description: str) -> Level:
            return Level.of(meters, name, labels, unit=unit, description=description)

        self._types: set[str] = set()
        self._created = tally("task.created", "type", unit="{task}", description="tasks that are new")
        self._claims = tally("task.claims", "type", unit="{run}", description="runs that began")
        self._requeues = tally(
            "task.requeues", "type", "cause",
            unit="{run}", description="runs after which their task waits again",
        )  # fmt: skip
        self._finished = tally(
            "task.finished", "type", "status", unit="{run}", description="runs that were their task's last"
        )
        self._fenced = tally(
            "task.fenced_writes", "write", unit="{write}", description="writes of runs that are over, refused"
        )
        for write in ("beat", "finish", "urls"):  # seen before the first one: a rise from nothing is no rise
            self._fenced.add(write, count=0)
        self._depth = level(
            "task.queue.depth", "type", "status", unit="{task}", description="tasks of a type by status"
        )
        self._age = level(
            "task.queue.oldest_pending_age", "type",
            unit="s", description="how long the first claimable task has waited",
        )  # fmt: skip
        self._workers = level(
            "task.queue.workers", "type", unit="{worker}", description="workers heard of in three minutes"
        )
        self._paused = level(
            "task.queue.paused", "type", unit="{queue}", description="1 while a person has paused the type"
        )

    def created(self, rows: Iterable[asyncpg.Record]) -> None:
        """Count new tasks; one that somebody waited for has begun already."""
        for row in rows:
            kind = self._kind(row["type"])
            self._created.add(kind)
            if row["status"] == Status.PROCESSING:
                self._claims.add(kind)

    def worked(self, ended: Iterable[Ended], claimed: Iterable[Claimed]) -> None:
        """Count runs that began and ended."""
        for kind, count in Counter(item.row["type"] for item in claimed).items():
            self._claims.add(self._kind(kind), count=count)
        for (kind, status, cause), count in Counter((t.type, t.status, t.cause) for t in ended).items():
            if status in FINAL:
                self._finished.add(self._kind(kind), status, count=count)
            else:
                self._requeues.add(self._kind(kind), cause, count=count)

    def fenced(self, write: str, count: int = 1) -> None:
        """Count refused late writes: `beat`, `finish` or `urls`."""
        if count:
            self._fenced.add(write, count=count)

    def queues(self, rows: Sequence[Any]) -> None:
        """Take over how the queues stand now, of `repository_queue.queues`; none: it isn't known.

        Of more types than have series of their own the first by name are told.
        """
        for level in (self._depth, self._age, self._workers, self._paused):
            level.forget()
        for row in rows[:MOST_TYPES]:
            kind = row["type"]
            self._kind(kind)
            for status in Status:
                self._depth.set(int(row[status.value]), kind, status.value)
            age = row["oldest_age"]
            self._age.set(max(0.0, age.total_seconds()) if age is not None else 0.0, kind)
            self._workers.set(int(row["workers"]), kind)
            self._paused.set(int(row["paused"]), kind)

    def _kind(self, task_type: str) -> str:
        if task_type not in self._types:
            if len(self._types) >= MOST_TYPES:
                return OTHER
            self._types.add(task_type)
            # seen before the first one: a rise from nothing is no rise
            for status in FINAL:
                self._finished.add(task_type, status.value, count=0)
            for cause in CAUSES:
                self._requeues.add(task_type, cause, count=0)
        return task_type
