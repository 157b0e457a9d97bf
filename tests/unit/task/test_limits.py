"""What workers were told holds, also when a person sets a shorter lease."""

from __future__ import annotations

from services.task.limits import READ_BY_ALL_SECONDS, TypeLimits
from services.task.repository_queue import Policy
from services.task.settings import TaskSettings

KIND = "t"


class _Limits:
    """The limits of a type whose usual lease is 60 s, and a clock moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        settings = TaskSettings(lease_seconds=60)
        self.limits = TypeLimits(settings, monotonic=lambda: self.now)

    def set(self, seconds: float) -> tuple[float, float]:
        """Set a lease (0: the usual one); return what workers are told, and what a sweep goes by."""
        self.limits.set_policies({KIND: Policy(lease_seconds=seconds)})
        return self.limits.lease_seconds(KIND), self.limits.lost_after_seconds(KIND)


def test_a_shorter_lease_is_told_at_once_and_nobody_is_lost_by_it_who_was_told_the_longer_one() -> None:
    clock = _Limits()
    assert clock.set(5) == (5, 60)
    clock.now += 60 + READ_BY_ALL_SECONDS
    assert clock.limits.lost_after_seconds(KIND) == 5


def test_a_longer_lease_holds_at_once() -> None:
    assert _Limits().set(90) == (90, 90)


def test_the_usual_lease_may_be_the_shorter_one() -> None:
    clock = _Limits()
    clock.set(90)
    assert clock.set(0) == (60, 90)


def test_steps_down_keep_the_longest_that_was_told() -> None:
    clock = _Limits()
    clock.set(30)
    assert clock.set(5) == (5, 60)


def test_another_field_of_a_policy_changes_no_lease() -> None:
    clock = _Limits()
    clock.limits.set_policies({KIND: Policy(paused=True)})
    assert clock.limits.lost_after_seconds(KIND) == 60
