"""One run of a task, as its handler sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from frontrow.task.v1 import task_pb2
from frontrow.worker.outcomes import Outcome
from google.protobuf import json_format

# No lease is as short as twice this.
ALWAYS_FRESH_SECONDS = 0.1


class Run:
    """A claimed task while its handler works on it.

    `doubted`: its claim's answer came so late that the lease may be over; the handler waits for a beat.
    """

    def __init__(self, task: task_pb2.Task, *, on_step: Callable[[], None] | None = None) -> None:
        self.task = task
        self.task_id = task.id
        self.version = task.version
        self.attempt = task.attempt
        # W3C traceparent of the creation, empty when there was none; the run's own span continues it
        self.trace_parent = task.trace_parent
        self.doubted = False
        self.lease_lost = False
        self.cancel_requested = False
        self.asyncio_task: asyncio.Task[Outcome] | None = None
        self._hundredths = 0
        self._on_step = on_step

    @property
    def payload(self) -> dict[str, Any]:
        """The task's input as JSON values (numbers are floats, as JSON's are)."""
        return json_format.MessageToDict(self.task.payload)

    @property
    def percent(self) -> int:
        """The progress reported so far, 0–100."""
        return self._hundredths // 100

    @property
    def hundredths(self) -> int:
        """The progress reported so far in hundredths of a per cent, 0–10,000."""
        return self._hundredths

    def progress(self, percent: float) -> None:
        """Report progress in per cent; it only rises, a lower value is ignored (domain.md 1.5).

        People see whole per cents; a rise by a hundredth is enough for a run not to count as stuck. Never
        blocks and never fails: it is sent with the next beat, and a whole per cent brings that beat forward.
        """
        if not percent > 0:  # nan too, which is no int
            return
        before = self.percent
        # floats lie a little below what they are meant to be
        hundredths = int(min(percent, 100) * 100 + 1e-6)
        if hundredths <= self._hundredths:
            return
        self._hundredths = hundredths
        if self.percent > before and self._on_step is not None:
            self._on_step()

    def is_old(self, age_seconds: float) -> bool:
        """Return whether a word on this lease that was asked for so long ago is too old to build on.

        How long the lease is follows from the server's two words at the claim: no clock of ours is in it.
        """
        if age_seconds < ALWAYS_FRESH_SECONDS:
            return False
        lease = self.task.lease_expire_time.ToNanoseconds() - self.task.start_time.ToNanoseconds()
        return 0 < lease / 2_000_000_000 < age_seconds

    def interrupt(self) -> None:
        """Cancel the handler, because the lease is lost or somebody asked to cancel the task."""
        if self.asyncio_task is not None:
            self.asyncio_task.cancel()
