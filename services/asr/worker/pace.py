"""Where a recogniser probably is between two of its reports, so that progress follows the work evenly.

The engine hears windows of half a minute, and says nothing before the first is done nor inside of one. What
is between moves on as quickly as such work went before, and stops where the next report is due at the latest.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Protocol

from services.asr.worker.speech import Span

# As much sound as the engine recognises before it reports again.
_WINDOW_MS = 30_000
# Of so many reports the middle is taken.
_PIECES = 5
BEGUN, PREPARED, ENDED = -1, 0, -2


class Report(Protocol):
    """Told what the engine says of a piece: see `PieceOnItsWay.says`."""

    def __call__(self, position_ms: int, window: int) -> None:
        """Take a report."""
        ...


class Pace:
    """What the engine's work took lately: the middle of a few pieces, so that one that hung doesn't count."""

    def __init__(self) -> None:
        self._leads: deque[float] = deque(maxlen=_PIECES)
        self._speeds: deque[float] = deque(maxlen=_PIECES)

    @property
    def lead(self) -> float:
        """Seconds before the first window for each second of a piece; 0: not known yet."""
        return median(self._leads) if self._leads else 0.0

    @property
    def speed(self) -> float:
        """Milliseconds of sound recognised in a second after that; 0: not known yet."""
        return median(self._speeds) if self._speeds else 0.0

    def led(self, lead: float) -> None:
        """Learn from what came before a piece's first window."""
        self._leads.append(lead)

    def heard(self, speed: float) -> None:
        """Learn from a piece's windows."""
        self._speeds.append(speed)


class PieceOnItsWay:
    """One piece of sound while it is recognised: it waits, has begun, is prepared, goes window by window."""

    def __init__(self, piece: Span, pace: Pace, clock: Callable[[], float] = time.monotonic) -> None:
        self.piece = piece
        self._pace = pace
        self._clock = clock
        self._window: int | None = None
        self._begun_at = self._prepared_at = self._reported_at = 0.0
        self._position_ms = piece.start_ms

    def says(self, position_ms: int, window: int) -> None:
        """Note a report: BEGUN, PREPARED, or the number of the window that has brought a segment.

        The segments of a window come all at once, so its pace is known when the next window's come.
        """
        now = self._clock()
        if window == BEGUN:
            self._begun_at = now
        elif window == PREPARED:
            self._prepared_at = now
            self._pace.led((now - self._begun_at) * 1000 / max(1, self._length_ms))
        elif window != self._window:
            self._learn()
        self._window, self._reported_at, self._position_ms = window, now, position_ms

    def ends(self) -> None:
        """Note that the piece is recognised to its end."""
        self._learn()
        self._window, self._position_ms = ENDED, self.piece.end_ms

    def _learn(self) -> None:
        """Learn from the windows that are done."""
        if self._position_ms > self.piece.start_ms:
            took = max(self._reported_at - self._prepared_at, 1e-3)
            self._pace.heard((self._position_ms - self.piece.start_ms) / took)

    def position_ms(self) -> int:
        """Return how far the piece is by the work done on it, in milliseconds of the recording.

        What comes before its first window counts as the sound that is recognised in the same time.
        """
        if self._window in {None, ENDED}:
            return self._position_ms
        lead = self._pace.lead * self._length_ms / 1000 * self._pace.speed
        moved = (self._clock() - self._reported_at) * self._pace.speed
        if self._window == BEGUN:
            done = min(moved, lead)
        else:
            done = lead + self._position_ms - self.piece.start_ms + min(moved, _WINDOW_MS)
        share = min(1.0, done / max(1.0, lead + self._length_ms))
        return self.piece.start_ms + int(share * self._length_ms)

    @property
    def _length_ms(self) -> int:
        return self.piece.end_ms - self.piece.start_ms
