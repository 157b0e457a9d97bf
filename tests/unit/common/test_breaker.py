"""A breaker: one outage is one failure, one call probes, an answer closes it."""

from __future__ import annotations

import pytest

from libs.common.breaker import LONGEST_PAUSE_SECONDS, Breaker


def opened(at: float = 10.0) -> tuple[Breaker, float]:
    """Return a breaker that a failure has opened, and when its probe is due."""
    breaker = Breaker()
    pause = breaker.failed(at - 1, at)
    assert pause is not None
    return breaker, at + pause


def test_it_is_closed_until_a_call_fails_and_then_one_call_probes_after_the_pause() -> None:
    assert not Breaker().is_open
    assert not Breaker().probe_due(1e9)
    breaker, due = opened()
    assert breaker.is_open
    assert not breaker.probe_due(due - 0.001)
    assert breaker.probe_due(due)
    breaker.probing()
    assert not breaker.probe_due(due + 1e9)


def test_calls_that_were_under_way_say_nothing_new_however_they_end() -> None:
    breaker, due = opened(at=10.0)
    assert breaker.failed(9.5, 12.0) is None
    assert not breaker.answered(9.9)
    assert (breaker.is_open, breaker.failures) == (True, 1)
    assert breaker.probe_due(due)


def test_an_answer_to_the_probe_closes_it_and_the_next_outage_begins_anew() -> None:
    breaker, due = opened()
    breaker.probing()
    assert breaker.answered(due)
    assert not breaker.is_open
    assert not breaker.answered(due + 1)
    assert breaker.failed(due - 2, due + 3) is None, "begun in the outage that is over"
    pause = breaker.failed(due + 2, due + 3)
    assert pause is not None
    assert 0.125 <= pause <= 0.25


def test_the_pause_doubles_to_its_longest_and_has_jitter() -> None:
    breaker = Breaker()
    for failures in range(1, 12):
        pause = breaker.failed(failures * 10.0, failures * 10.0 + 1)
        assert pause is not None
        most = min(LONGEST_PAUSE_SECONDS, 0.25 * 2 ** (failures - 1))
        assert most / 2 <= pause <= most
    assert len({Breaker().failed(0.0, 1.0) for _ in range(5)}) > 1


@pytest.mark.parametrize("told", [0.5, 30.0])
def test_a_pause_that_the_peer_asked_for_is_kept_and_not_by_all_to_the_same_moment(told: float) -> None:
    pauses = [Breaker().failed(0.0, 1.0, told_seconds=told) or 0.0 for _ in range(5)]
    assert min(pauses) > told
    assert max(pauses) <= told + LONGEST_PAUSE_SECONDS
    assert len(set(pauses)) > 1
