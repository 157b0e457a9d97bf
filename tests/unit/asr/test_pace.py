"""Progress between two reports of a recogniser: even, never ahead of the next report, learned from before."""

from __future__ import annotations

import pytest

from services.asr.worker.pace import BEGUN, PREPARED, Pace, PieceOnItsWay
from services.asr.worker.speech import Span

PIECE = Span(2, 300_000, 450_000)


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def known() -> Pace:
    pace = Pace()
    pace.led(0.01)
    pace.heard(12_000)
    return pace


def recognised(pace: Pace, clock: Clock, *, lead: float, window: float) -> list[int]:
    """Have the piece recognised, and return its positions each tenth of a second."""
    one, positions = PieceOnItsWay(PIECE, pace, clock), []

    def wait(seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            clock.now += 0.1
            positions.append(one.position_ms())

    one.says(PIECE.start_ms, BEGUN)
    wait(lead)
    one.says(PIECE.start_ms, PREPARED)
    for number in range(5):
        wait(window)
        for end_ms in (9_000, 21_500, 30_000):
            one.says(PIECE.start_ms + number * 30_000 + end_ms, number + 1)
    one.ends()
    positions.append(one.position_ms())
    return positions


def longest_rest(positions: list[int], step_ms: int) -> float:
    """Return the longest time in seconds in which positions passed no multiple of `step_ms`."""
    rests, since, passed = [0.0], 0, positions[0] // step_ms
    for tenth, position in enumerate(positions):
        if position // step_ms > passed:
            rests.append((tenth - since) / 10)
            since, passed = tenth, position // step_ms
    return max(rests)


def test_before_anything_is_known_only_what_was_reported_counts(clock: Clock) -> None:
    one = PieceOnItsWay(PIECE, Pace(), clock)
    assert one.position_ms() == PIECE.start_ms
    one.says(PIECE.start_ms, BEGUN)
    clock.now += 3
    one.says(PIECE.start_ms, PREPARED)
    clock.now += 4
    assert one.position_ms() == PIECE.start_ms
    one.says(327_000, 1)
    assert one.position_ms() == 327_000


def test_a_piece_goes_on_evenly_at_the_pace_of_the_one_before(clock: Clock) -> None:
    pace = Pace()
    first = recognised(pace, clock, lead=2.0, window=2.5)
    assert longest_rest(first, 10_000) >= 4.5, "nothing is known of the first window"
    second = recognised(pace, clock, lead=2.0, window=2.5)
    assert second == sorted(second)
    assert second[-1] == PIECE.end_ms
    # ten seconds of the piece are a fifteenth of its fourteen and a half seconds of work
    assert longest_rest(second, 10_000) <= 1.3


def test_a_piece_of_one_window_teaches_the_pace_as_well(clock: Clock) -> None:
    pace = Pace()
    one = PieceOnItsWay(Span(0, 0, 20_000), pace, clock)
    one.says(0, BEGUN)
    clock.now += 1
    one.says(0, PREPARED)
    clock.now += 2
    one.says(9_000, 1)
    one.says(18_000, 1)
    one.ends()
    assert (pace.lead, pace.speed) == (pytest.approx(0.05), pytest.approx(9_000))
    assert one.position_ms() == 20_000, "the silence behind the last word is done as well"


def test_a_piece_that_is_slower_waits_for_its_report_within_a_window(clock: Clock) -> None:
    pace = Pace()
    for _ in range(3):
        recognised(pace, clock, lead=2.0, window=2.5)
    one = PieceOnItsWay(PIECE, pace, clock)
    one.says(PIECE.start_ms, BEGUN)
    clock.now += 3600
    hung = one.position_ms()
    assert PIECE.start_ms < hung < PIECE.start_ms + 30_000
    one.says(PIECE.start_ms, PREPARED)
    one.says(327_000, 1)
    clock.now += 3600
    assert 327_000 + 30_000 - 10_000 < one.position_ms() < 327_000 + 2 * 30_000


def test_one_that_waits_for_a_child_stays_where_it_is(clock: Clock) -> None:
    one = PieceOnItsWay(PIECE, known(), clock)
    clock.now += 60
    assert one.position_ms() == PIECE.start_ms


def test_an_empty_piece_has_no_length_to_go(clock: Clock) -> None:
    one = PieceOnItsWay(Span(0, 5_000, 5_000), known(), clock)
    one.says(5_000, BEGUN)
    one.says(5_000, PREPARED)
    assert one.position_ms() == 5_000
