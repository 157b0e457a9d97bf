"""How long to keep off after infrastructure failed, and when to say so."""

from __future__ import annotations

import random

FIRST_SECONDS = 0.25
LONGEST_SECONDS = 30.0
FAILURES_TO_OPEN = 5


def backoff_seconds(failures: int, *, chance: float | None = None) -> float:
    """Return the pause after the given number of failures in a row: 0.25 s doubling to 30 s, jittered.

    `chance` (0–1) replaces the random draw. The pause lies between half of the full value and all of it.
    """
    full = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures - 1, 20))
    draw = random.random() if chance is None else chance  # noqa: S311 - jitter, not a secret
    return full * (0.5 + draw / 2)


class Breaker:
    """Counts infrastructure failures in a row; from the fifth on it is open (domain.md 2.4)."""

    def __init__(self) -> None:
        self._failures = 0

    @property
    def open(self) -> bool:
        """Whether the surroundings count as down; work is then probed with one task at a time."""
        return self._failures >= FAILURES_TO_OPEN

    def failed(self) -> float:
        """Note a failure; return the pause in seconds before the next try."""
        self._failures += 1
        return backoff_seconds(self._failures)

    def succeeded(self) -> None:
        """Note that something worked: the count starts again."""
        self._failures = 0
