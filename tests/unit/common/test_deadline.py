"""The present deadline and what a nested call may take of it."""

import asyncio

import pytest

from libs.common import deadline


def test_nothing_limits_a_call_outside_of_one():
    assert deadline.remaining_seconds() is None
    assert deadline.nested_timeout(None, cap_seconds=None) is None
    assert deadline.nested_timeout(None, cap_seconds=30) == 30
    assert deadline.nested_timeout(70, cap_seconds=30) == 70


def test_inside_a_call_a_nested_one_ends_a_tenth_of_a_second_earlier():
    with deadline.limited_to(5):
        assert deadline.nested_timeout(None, cap_seconds=30) == pytest.approx(4.9, abs=0.05)
        assert deadline.nested_timeout(60, cap_seconds=30) == pytest.approx(4.9, abs=0.05)
        assert deadline.nested_timeout(None, cap_seconds=None) == pytest.approx(4.9, abs=0.05)
        assert deadline.nested_timeout(1, cap_seconds=30) == 1
    assert deadline.remaining_seconds() is None


def test_a_call_that_is_over_leaves_nothing():
    with deadline.limited_to(0.05):
        assert deadline.nested_timeout(None, cap_seconds=30) == 0
    with deadline.limited_to(-1):
        assert deadline.remaining_seconds() == 0


async def test_a_task_that_outlives_its_call_can_lift_the_limit():
    async def later() -> float | None:
        return deadline.remaining_seconds()

    with deadline.limited_to(5):
        inherited = asyncio.create_task(later())
        with deadline.limited_to(None):
            lifted = asyncio.create_task(later())
    assert await inherited is not None
    assert await lifted is None
