"""A full look is left for later where it takes long, and made at once where work is known to be missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from services.task import repository_claim
from services.task.repository_claim import LONGEST_LOOK_SECONDS, Marks

TOP = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock whose `now`, in seconds, is set by hand."""
    hand = SimpleNamespace(now=0.0)
    monkeypatch.setattr(repository_claim, "time", SimpleNamespace(monotonic=lambda: hand.now))
    return hand


def _full_look(marks: Marks, clock: SimpleNamespace, *, seconds: float) -> None:
    mark = marks.begin("t")
    assert mark.year == 1
    clock.now += seconds
    marks.looked("t", mark, seconds)
    marks.claimed("t", [TOP], TOP + timedelta(hours=1))


def _seconds_to_the_next(marks: Marks, clock: SimpleNamespace) -> int:
    began = clock.now
    while marks.begin("t") == TOP:
        clock.now += 1.0
    return round(clock.now - began)


@pytest.mark.parametrize(
    ("took", "pause"), [(0.002, 5), (0.1, 5), (0.4, 20), (0.5, 25), (3.0, LONGEST_LOOK_SECONDS)]
)
def test_full_looks_take_a_fiftieth_of_the_time_and_come_within_half_a_minute(
    clock: SimpleNamespace, took: float, pause: float
) -> None:
    marks = Marks()
    _full_look(marks, clock, seconds=took)
    assert abs(_seconds_to_the_next(marks, clock) - pause) <= max(1, took)


def test_a_look_from_the_mark_says_nothing_of_what_a_full_one_costs(clock: SimpleNamespace) -> None:
    marks = Marks()
    _full_look(marks, clock, seconds=0.4)
    marks.looked("t", marks.begin("t"), 0.001)
    assert _seconds_to_the_next(marks, clock) == 20


def test_known_work_below_the_mark_is_looked_for_at_once(clock: SimpleNamespace) -> None:
    marks = Marks()
    _full_look(marks, clock, seconds=3.0)
    assert marks.begin("t") == TOP
    marks.forget(["t", "never seen"])
    assert marks.begin("t").year == 1
