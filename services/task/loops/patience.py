"""How long this server could itself have taken beats: a run is only called lost by one who was listening."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

JUMP_SECONDS = 1.5


class Patience:
    """Measures the time since the last doubt (domain.md 1.6).

    A doubt is a start, a beat or a search that the database didn't take, a pause of this process, or a clock
    that jumped.
    """

    def __init__(
        self, *, longest_gap_seconds: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._longest_gap_seconds = longest_gap_seconds
        self._monotonic = monotonic
        self._since = monotonic()
        self._last: tuple[float, datetime] | None = None

    def doubt(self) -> None:
        """Begin again: for a while beats can't have arrived here."""
        self._since = self._monotonic()
        self._last = None

    def observe(self, database_time: datetime) -> float:
        """Note that the database answers, at its time; return the seconds of listening without a doubt."""
        now = self._monotonic()
        if self._last is not None:
            passed = now - self._last[0]
            database_passed = (database_time - self._last[1]).total_seconds()
            if passed > self._longest_gap_seconds or abs(passed - database_passed) > JUMP_SECONDS:
                self._since = now
        self._last = (now, database_time)
        return now - self._since
