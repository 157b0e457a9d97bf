"""Only who could have heard a beat may call a run lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from services.task.loops.patience import Patience

_START = datetime(2026, 1, 1, tzinfo=UTC)


class _Clock:
    """This machine's clock and the database's, moved by hand."""

    def __init__(self) -> None:
        self.here = 1_000.0
        self.there = _START

    def __call__(self) -> float:
        return self.here

    def pass_(self, seconds: float, *, there: float | None = None) -> datetime:
        """Let time pass; return the database's time after."""
        self.here += seconds
        self.there += timedelta(seconds=seconds if there is None else there)
        return self.there


def _listened(clock: _Clock, patience: Patience, seconds: int) -> float:
    listened = 0.0
    for _ in range(seconds // 3):
        listened = patience.observe(clock.pass_(3))
    return listened


def test_patience_grows_while_the_database_answers() -> None:
    clock = _Clock()
    patience = Patience(longest_gap_seconds=8, monotonic=clock)
    assert _listened(clock, patience, 60) == 60


def test_a_doubt_starts_it_again() -> None:
    clock = _Clock()
    patience = Patience(longest_gap_seconds=8, monotonic=clock)
    _listened(clock, patience, 60)
    patience.doubt()
    assert _listened(clock, patience, 6) == 6


def test_a_pause_of_this_process_starts_it_again() -> None:
    clock = _Clock()
    patience = Patience(longest_gap_seconds=8, monotonic=clock)
    _listened(clock, patience, 60)
    assert patience.observe(clock.pass_(9)) == 0


def test_a_jump_of_the_database_clock_starts_it_again() -> None:
    clock = _Clock()
    patience = Patience(longest_gap_seconds=8, monotonic=clock)
    _listened(clock, patience, 60)
    assert patience.observe(clock.pass_(3, there=90)) == 0
    assert patience.observe(clock.pass_(3)) == 3
    assert patience.observe(clock.pass_(3, there=-20)) == 0
