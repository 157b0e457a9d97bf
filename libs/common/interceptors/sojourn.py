"""Know how long calls wait inside of gRPC before this server takes them, and when that has become too long.

A server whose processor is what is short takes calls no quicker than it serves them: the others wait where
nobody counts them, and gRPC drops those beyond its limit without a word. What tells is how long a call waited
until it was taken: in a queue that stands, even the luckiest of many waits (CoDel, RFC 8289).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from libs.common.interceptors.call import ServedCall

TIMEOUT_KEY = "x-frontrow-timeout"
"""The metadata key by which a client says how many seconds its call may take in all."""

LONG_SECONDS = 0.25
"""A queue stands when nobody waits less than this for a window."""
SHORT_SECONDS = 0.05
"""Who waited longer than this is refused while the queue stands: the queue is kept short, not empty."""
WINDOW_SECONDS = 0.1
FEWEST = 8
"""A window with fewer calls tells nothing."""
CALM_SECONDS = 1.0
"""A queue stands no more when nobody had to be refused for so long."""

_ATTEMPTS_KEY = "grpc-previous-rpc-attempts"


def timeout_metadata(timeout_seconds: float) -> tuple[str, str]:
    """Return what a client adds to the metadata of a call with this timeout."""
    return TIMEOUT_KEY, f"{timeout_seconds:.3f}"


def waited_seconds(call: ServedCall) -> float | None:
    """Return how long a call has been under way, None when that can't be told.

    The deadline that gRPC hands on is made of the timeout at the moment when the call arrives: what is gone
    of it since is the wait, by one clock. A repeated attempt keeps the metadata of the first, so it doesn't
    tell.
    """
    told, left = call.metadata(TIMEOUT_KEY), call.context.time_remaining()
    if told is None or left is None or call.metadata(_ATTEMPTS_KEY) is not None:
        return None
    try:
        waited = float(told) - left
    except ValueError:
        return None
    return max(0.0, waited) if math.isfinite(waited) else None


class Sojourn:
    """How long the calls of one method waited lately; `is_too_long` notes a call and says what becomes of it.

    While the queue stands, who waited `SHORT_SECONDS` is refused, which takes a part of the time that serving
    would: so the queue shrinks, and those who are let in meet a short one. Who doesn't say how long it waited
    shares the fate of who was last before.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._stands = False
        self._refusing = False
        self._refused_at = 0.0
        self._since, self._calls, self._shortest = monotonic(), 0, math.inf

    def is_too_long(self, waited: float | None) -> bool:
        """Note a call that waited so many seconds (None: unknown); return True when it is to be refused."""
        now = self._monotonic()
        if now - self._since >= WINDOW_SECONDS:
            self._decide(now)
        if waited is not None:
            self._calls += 1
            self._shortest = min(self._shortest, waited)
            self._refusing = self._stands and waited > SHORT_SECONDS
        if self._refusing:
            self._refused_at = now
        return self._refusing

    def _decide(self, now: float) -> None:
        if self._stands:
            self._stands = now - self._refused_at < CALM_SECONDS
            self._refusing = self._refusing and self._stands
        elif self._calls >= FEWEST and self._shortest > LONG_SECONDS:
            self._stands, self._refused_at = True, now
        self._since, self._calls, self._shortest = now, 0, math.inf
