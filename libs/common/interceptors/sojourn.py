"""Know how long calls wait inside of gRPC before this server takes them, and when that has become too long.

A server whose processor is what is short takes calls no quicker than it serves them: the others wait where
nobody counts them, and gRPC drops those beyond its limit without a word. What tells is how long a call waited
until it was taken: in a queue that stands, even the luckiest of many waits (CoDel, RFC 8289).
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from libs.common.interceptors.call import ServedCall

TIMEOUT_KEY = "x-frontrow-timeout"
"""The metadata key by which a client says how many seconds its call may take in all."""

LONG_SECONDS = 0.25
"""A queue stands when only the lucky wait less than this for a window."""
LUCKY_SHARE = 0.1
"""gRPC hands a call that comes at the right moment on before those that wait: so many tell nothing."""
SHORT_SECONDS = 0.05
"""Who waited longer than this is refused while the queue stands: the queue is kept short, not empty."""
MOST_WAITING = 64
"""So many may wait: by chance, or because so many callers have a call each. A queue that stands is longer."""
WINDOW_SECONDS = 0.1
FEWEST = 8
"""A window with fewer calls tells nothing: it lasts until there are as many, for calls may take long."""
LONGEST_WINDOW_SECONDS = 1.0
"""What began so long ago tells nothing of now."""
BURST_SECONDS, MOST_IN_A_BURST = 0.35, 512
"""Calls that come within this of the last window without waits, or of when the server was idle, are a burst,
up to so many: a queue that nobody adds to ends by itself."""
LONGEST_BURST_SECONDS = 1.0
"""Nobody waits longer than this for a burst."""
CALM_SECONDS = 1.0
"""A queue stands no more when nobody had to be refused for so long."""

_ATTEMPTS_KEY = "grpc-previous-rpc-attempts"
# gRPC sends a timeout rounded up: by less than 0.1 s below this, by up to a second and more beyond.
_COARSE_SECONDS = 100.0
_ROUNDING_SECONDS = 0.2
_MOST_PEERS = 10_000


def timeout_metadata(timeout_seconds: float) -> tuple[str, str]:
    """Return what a client adds to the metadata of a call with this timeout."""
    return TIMEOUT_KEY, f"{timeout_seconds:.3f}"


class SojournTimes:
    """How long calls waited inside of gRPC before they were taken.

    The deadline that gRPC hands on is made of the timeout that is left when a client sends its call: what is
    gone of it since is the wait, by one clock. What was gone before, while the client connected, is no wait
    here: nobody can have waited for longer than its connection is known, which is from its first call on.
    """

    def __init__(
        self, *, monotonic: Callable[[], float] = time.monotonic, most_peers: int = _MOST_PEERS
    ) -> None:
        """Remember so many connections; one that is forgotten counts as new."""
        self._monotonic = monotonic
        self._most_peers = most_peers
        self._known_since: OrderedDict[str, float] = OrderedDict()

    def of(self, call: ServedCall) -> float | None:
        """Return how many seconds a call waited, None when that can't be told.

        What a client names is believed where it can be so. A repeated attempt keeps the metadata of the
        first, so it doesn't tell.
        """
        told, left = call.metadata(TIMEOUT_KEY), call.context.time_remaining()
        if told is None or left is None or call.metadata(_ATTEMPTS_KEY) is not None:
            return None
        try:
            timeout = float(told)
        except ValueError:
            return None
        waited = timeout - left
        if not timeout < _COARSE_SECONDS or waited < -_ROUNDING_SECONDS:
            return None
        return max(0.0, waited) if waited <= self._known_seconds(call.context.peer()) else None

    def _known_seconds(self, peer: str) -> float:
        now = self._monotonic()
        since = self._known_since.setdefault(peer, now)
        self._known_since.move_to_end(peer)
        if len(self._known_since) > self._most_peers:
            self._known_since.popitem(last=False)
        return now - since


class _Window:
    """What was seen of a queue since a moment."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.calls = self.short = self.not_long = 0
        self.waits = 0.0

    def note(self, waited: float) -> None:
        """Count a call."""
        self.calls += 1
        self.waits += waited
        self.short += waited <= SHORT_SECONDS
        self.not_long += waited <= LONG_SECONDS

    def is_long(self, now: float) -> bool:
        """Tell whether nearly all waited long, and more than callers with a call each would make wait."""
        waiting = self.waits / max(now - self.since, WINDOW_SECONDS)  # Little's law
        all_long = self.not_long <= LUCKY_SHARE * self.calls
        return self.calls >= FEWEST and all_long and waiting > MOST_WAITING


class Sojourn:
    """How long the calls of one queue waited lately; `is_too_long` notes a call and says what becomes of it.

    While the queue stands, who waited `SHORT_SECONDS` is refused, which takes a part of the time that serving
    would: so the queue shrinks, and those who are let in meet a short one. Who doesn't say how long it waited
    shares the fate of who was just before.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._stands = False
        self._refusing = False
        self._refused_at = 0.0
        self._window = _Window(monotonic())
        self._burst_began, self._burst_calls = self._window.since, 0
        self._newest = self._taken_at = -math.inf

    def is_too_long(self, waited: float | None) -> bool:
        """Note a call that waited so many seconds (None: unknown); return True when it is to be refused."""
        now = self._monotonic()
        enough = self._stands or self._window.calls >= FEWEST
        if now - self._window.since >= (WINDOW_SECONDS if enough else LONGEST_WINDOW_SECONDS):
            self._decide(now)
        if waited is not None:
            if now - self._taken_at > LONG_SECONDS:
                self._burst_began, self._burst_calls = now, 0
            self._window.note(waited)
            self._burst_calls += 1
            self._newest, self._taken_at = now - waited, now
            self._refusing = self._stands and waited > SHORT_SECONDS
        elif now - self._taken_at > SHORT_SECONDS:
            self._refusing = False  # nobody is near whose fate could be shared
        if self._refusing:
            self._refused_at = now
        return self._refusing

    def _decide(self, now: float) -> None:
        window = self._window
        if self._stands:
            self._stands = now - self._refused_at < CALM_SECONDS
            self._refusing = self._refusing and self._stands
        elif window.is_long(now) and not self._is_burst():
            self._stands, self._refused_at = True, now
        if window.short > LUCKY_SHARE * window.calls:
            self._burst_began, self._burst_calls = now, 0
        self._window = _Window(now)

    def _is_burst(self) -> bool:
        """Tell whether who waits came at once, and nobody since: then the queue needs no help."""
        at_once = self._newest - self._burst_began <= BURST_SECONDS and self._burst_calls <= MOST_IN_A_BURST
        return at_once and self._window.waits / self._window.calls <= LONGEST_BURST_SECONDS
