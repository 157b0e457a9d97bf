"""Keep calls from a peer that is away: a circuit breaker. An outage is one fact, however many calls wait."""

from __future__ import annotations

import math

from libs.common.loops import backoff_seconds

LONGEST_PAUSE_SECONDS = 1.0
"""One call a second is no load for a peer, and what waits for it goes on that soon after it is back."""


class Breaker:
    """Closed while the peer answers; open from a failure on, when one call probes after each pause.

    A call is told apart by when it began, on the clock that the caller always uses (seconds): one that began
    before the last failure says nothing new, however it ends.
    """

    def __init__(self, *, longest_seconds: float = LONGEST_PAUSE_SECONDS) -> None:
        """Begin closed; the pauses double from 0.25 s to ``longest_seconds``, with jitter."""
        self._longest_seconds = longest_seconds
        self._failed_at = -math.inf
        self._probe_at = math.inf
        self.failures = 0
        """Failures in a row, 0 while it is closed."""

    @property
    def is_open(self) -> bool:
        """Tell whether calls must wait."""
        return self.failures > 0

    def probe_due(self, now: float) -> bool:
        """Tell whether a call may probe: the pause is over and none does yet."""
        return self.is_open and now >= self._probe_at

    def probing(self) -> None:
        """Note that a call probes; ``failed`` or ``answered`` must be told how it ended."""
        self._probe_at = math.inf

    def failed(self, began: float, now: float, *, told_seconds: float = 0.0) -> float | None:
        """Open, or stay open; return the pause in seconds, None when this outage was known.

        ``told_seconds`` is the pause that the peer asked for: it is kept, and the own one comes on top, so
        that not all who were told the same come back together.
        """
        if began <= self._failed_at:
            return None
        self.failures += 1
        self._failed_at = now
        pause = told_seconds + backoff_seconds(self.failures, longest=self._longest_seconds)
        self._probe_at = now + pause
        return pause

    def answered(self, began: float) -> bool:
        """Close when the call began after the last failure; tell whether that ended an outage."""
        if not self.is_open or began <= self._failed_at:
            return False
        self.failures = 0
        self._probe_at = math.inf
        return True
