"""Turns at keys: few at a time, in order, never past the deadline, and nothing is left behind."""

from __future__ import annotations

import asyncio

import pytest

from libs.common import deadline
from services.review.errors import ReviewBusy
from services.review.turns import AT_ONCE, MARGIN_SECONDS, Turns


class Visitors:
    """Calls that stay at their keys until they are let go."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.there: list[str] = []
        self.let_go = asyncio.Event()

    async def visit(self, name: str, *keys: int) -> None:
        async with self._turns.at(keys):
            self.there.append(name)
            await self.let_go.wait()


async def settled() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_few_at_a_time_are_let_to_a_key_and_others_to_their_own() -> None:
    visitors = Visitors(Turns(room=100))
    calls = [asyncio.create_task(visitors.visit(f"hot {i}", 1)) for i in range(5)]
    calls.append(asyncio.create_task(visitors.visit("other", 2)))
    await settled()
    assert visitors.there == [*(f"hot {i}" for i in range(AT_ONCE)), "other"]
    visitors.let_go.set()
    await asyncio.gather(*calls)
    assert [name for name in visitors.there if name != "other"] == [f"hot {i}" for i in range(5)]


async def test_no_more_than_the_room_is_taken_whatever_the_keys() -> None:
    visitors = Visitors(Turns(room=3))
    calls = [asyncio.create_task(visitors.visit(str(i), i)) for i in range(5)]
    await settled()
    assert len(visitors.there) == 3
    visitors.let_go.set()
    await asyncio.gather(*calls)
    assert len(visitors.there) == 5


async def test_who_waits_for_two_keys_in_either_order_never_waits_for_ever() -> None:
    turns = Turns(room=100)

    async def pass_by(*keys: int) -> None:
        async with turns.at(keys):
            await asyncio.sleep(0)

    async with asyncio.timeout(10):
        await asyncio.gather(*(pass_by(*((1, 2) if i % 2 else (2, 1))) for i in range(50)))


async def test_a_call_whose_time_is_nearly_over_is_told_so_and_leaves_its_place() -> None:
    turns = Turns(room=100)
    visitors = Visitors(turns)
    calls = [asyncio.create_task(visitors.visit("there", 1)) for _ in range(AT_ONCE)]
    await settled()
    with deadline.limited_to(MARGIN_SECONDS + 0.05), pytest.raises(ReviewBusy):
        await visitors.visit("late", 1)
    visitors.let_go.set()
    await asyncio.gather(*calls)
    await asyncio.wait_for(visitors.visit("later", 1), 5)
    assert not turns._keys


async def test_a_cancelled_call_leaves_its_place_to_the_next() -> None:
    turns = Turns(room=1)
    visitors = Visitors(turns)
    calls = [asyncio.create_task(visitors.visit(str(i), 1)) for i in range(4)]
    await settled()
    for call in calls[:3]:
        call.cancel()
    await asyncio.gather(*calls[:3], return_exceptions=True)
    visitors.let_go.set()
    await calls[3]
    assert visitors.there == ["0", "3"]
    assert not turns._keys
