"""What the task server counts beside its calls, and how full its queues are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import asyncpg
from opentelemetry import metrics

from libs.common.tally import OTHER, SCOPE, Tally
from services.task.repository_claim import Claimed
from services.task.repository_end import Ended
from services.task.states import FINAL, Status

MOST_TYPES = 50
"""How many types of work have series of their own; the rest is `other`. Creators choose types."""


class TaskMetrics:
    """Counts what has been committed; without a provider of its own it uses the process's."""

    def __init__(self, meters: metrics.MeterProvider | None = None) -> None:
        def tally(name: str, *labels: str, unit: str, description: str) -> Tally:
            return Tally.of(meters, name, labels, unit=unit, description=description)

        self._types: set[str] = set()
        self._queues: Sequence[Any] = ()
        self._created = tally("task.created", "type", unit="{task}", description="tasks that are new")
        self._claims = tally("task.claims", "type", unit="{run}", description="runs that began")
        self._requeues = tally(
            "task.requeues",
            "type",
            "cause",
            unit="{run}",
            description="runs after which the task waits again",
        )
        self._finished = tally(
            "task.finished", "type", "status", unit="{run}", description="runs that were their task's last"
        )
        self._fenced = tally(
            "task.fenced_writes", "write", unit="{write}", description="writes of runs that are over, refused"
        )
        for write in ("beat", "finish", "urls"):  # seen before the first one: a rise from nothing is no rise
            self._fenced.add(write, count=0)
        self._gauges(meters)

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
        """Take over how the queues stand now, of `repository_queue.queues`; none: it isn't known."""
        self._queues = rows

    def _kind(self, task_type: str) -> str:
        if task_type not in self._types:
            if len(self._types) >= MOST_TYPES:
                return OTHER
            self._types.add(task_type)
        return task_type

    def _gauges(self, meters: metrics.MeterProvider | None) -> None:
        meter = (meters or metrics.get_meter_provider()).get_meter(SCOPE)

        def gauge(name: str, read: _Read, *, unit: str, description: str) -> None:
            def observe(_options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
                # The first types by name: the same ones at every look, however many there are.
                for row in self._queues[:MOST_TYPES]:
                    yield from read(row)

            meter.create_observable_gauge(name, [observe], unit=unit, description=description)

        gauge("task.queue.depth", _depth, unit="{task}", description="tasks of a type by status")
        gauge(
            "task.queue.oldest_pending_age", _oldest,
            unit="s", description="how long the first claimable task has waited",
        )  # fmt: skip
        gauge("task.queue.workers", _workers, unit="{worker}", description="workers heard of in 3 minutes")
        gauge("task.queue.paused", _paused, unit="1", description="1 while a person has paused the type")


_Read = Callable[[Any], Iterable[metrics.Observation]]


def _depth(row: Any) -> Iterable[metrics.Observation]:
    for status in Status:
        yield metrics.Observation(int(row[status.value]), {"type": row["type"], "status": status.value})


def _oldest(row: Any) -> Iterable[metrics.Observation]:
    age = row["oldest_age"].total_seconds() if row["oldest_age"] is not None else 0.0
    yield metrics.Observation(max(0.0, age), {"type": row["type"]})


def _workers(row: Any) -> Iterable[metrics.Observation]:
    yield metrics.Observation(int(row["workers"]), {"type": row["type"]})


def _paused(row: Any) -> Iterable[metrics.Observation]:
    yield metrics.Observation(int(row["paused"]), {"type": row["type"]})
