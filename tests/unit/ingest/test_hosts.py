"""Pauses of hosts are remembered while they are on; each is news once."""

from __future__ import annotations

from services.ingest.worker.hosts import HostPauses


class _Clock:
    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses = HostPauses(1.0, monotonic=lambda: self.now)


def test_hosts_whose_pause_is_over_are_forgotten_though_nobody_asks_after_them() -> None:
    clock = _Clock()
    for number in range(10_000):
        clock.pauses.pause(f"{number}.example", 30.0)
        clock.now += 1
    assert clock.pauses.are_on("9999.example")
    assert not clock.pauses.are_on("9000.example")
    assert len(clock.pauses) < 200


def test_a_pause_is_news_unless_one_that_is_on_ends_about_as_late() -> None:
    clock = _Clock()
    assert clock.pauses.pause("a.example", 30.0)
    clock.now += 0.5
    assert not clock.pauses.pause("a.example", 30.0)
    assert not clock.pauses.pause("a.example", 5.0)
    assert clock.pauses.pause("a.example", 60.0)
    assert clock.pauses.pause("b.example", 30.0)
    clock.now += 61
    assert clock.pauses.pause("a.example", 0.5)
