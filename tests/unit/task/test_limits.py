"""What workers were told holds, also when a person sets a shorter lease."""

from __future__ import annotations

import pytest

from services.task.limits import TypeLimits
from services.task.repository_queue import Policy
from services.task.settings import TaskSettings

KIND = "t"


@pytest.mark.parametrize(
    ("policy", "told", "lost_after"),
    [
        (Policy(), 60, 60),
        (Policy(lease_seconds=90), 90, 90),
        (Policy(lease_seconds=5), 5, 5),
        (Policy(lease_seconds=5, longer_lease_seconds=60), 5, 60),
        (Policy(longer_lease_seconds=90), 60, 90),
        (Policy(lease_seconds=120, longer_lease_seconds=60), 120, 120),
    ],
)
def test_workers_are_told_the_lease_and_nobody_is_lost_who_was_told_a_longer_one(
    policy: Policy, told: float, lost_after: float
) -> None:
    limits = TypeLimits(TaskSettings(lease_seconds=60))
    assert limits.set_policies({KIND: policy})
    assert not limits.set_policies({KIND: policy})
    assert (limits.lease_seconds(KIND), limits.lost_after_seconds(KIND)) == (told, lost_after)
