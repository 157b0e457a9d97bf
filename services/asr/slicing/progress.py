"""The per cent of a run, made of the shares of its phases."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from frontrow.worker import Run


class Phase:
    """A part of a run's progress, from one per cent to another (domain.md 2.10: 0-50, 50-100)."""

    def __init__(self, run: Run, begin: int, end: int) -> None:
        self._run = run
        self._begin = begin
        self._end = end

    def share(self, done: float) -> None:
        """Report what is done of the phase, 0.0 to 1.0."""
        self._run.progress(self._begin + max(0.0, min(1.0, done)) * (self._end - self._begin))


def by_length(lengths: Sequence[int], report: Callable[[float], None]) -> Callable[[int, float], None]:
    """Return the function that takes an item's position and its share done, and reports that of all.

    Items count by their length.
    """
    total = max(1, sum(lengths))

    def at(position: int, share: float) -> None:
        report((sum(lengths[:position]) + share * lengths[position]) / total)

    return at
