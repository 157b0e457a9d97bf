"""One flush in flight; what arrives meanwhile shares the next; one bad item spoils only its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg
import pytest

from libs.common.coalesce import Coalescer


class _Flushes:
    """Answers each number by its double; -1 can't be stored, -2 breaks the connection."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        self.begun.set()
        await self.gate.wait()
        if -1 in items:
            raise asyncpg.UntranslatableCharacterError("no NUL")
        if -2 in items:
            raise asyncpg.ConnectionDoesNotExistError("gone")
        return [item * 2 for item in items]


async def test_what_arrives_during_a_flush_shares_the_next() -> None:
    flushes = _Flushes()
    flushes.gate.clear()
    desk = Coalescer[int, int](flushes)
    first = asyncio.ensure_future(desk.submit(1))
    await flushes.begun.wait()
    others = [asyncio.ensure_future(desk.submit(item)) for item in range(2, 6)]
    await asyncio.sleep(0)
    flushes.gate.set()
    assert await asyncio.gather(first, *others) == [2, 4, 6, 8, 10]
    assert flushes.batches == [[1], [2, 3, 4, 5]]


async def test_a_bad_item_fails_alone() -> None:
    desk = Coalescer[int, int](_Flushes())
    answers = await asyncio.gather(*(desk.submit(item) for item in (1, -1, 3)), return_exceptions=True)
    assert answers[0] == 2
    assert isinstance(answers[1], asyncpg.UntranslatableCharacterError)
    assert answers[2] == 6


async def test_a_lost_connection_fails_every_caller_and_the_next_flush_works() -> None:
    desk = Coalescer[int, int](_Flushes())
    answers = await asyncio.gather(*(desk.submit(item) for item in (1, -2)), return_exceptions=True)
    assert all(isinstance(answer, asyncpg.ConnectionDoesNotExistError) for answer in answers)
    assert await desk.submit(4) == 8


async def test_a_caller_that_goes_away_does_not_take_the_flush_down() -> None:
    flushes = _Flushes()
    flushes.gate.clear()
    desk = Coalescer[int, int](flushes)
    leaving, staying = asyncio.ensure_future(desk.submit(1)), asyncio.ensure_future(desk.submit(2))
    await flushes.begun.wait()
    leaving.cancel()
    flushes.gate.set()
    assert await staying == 4
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await desk.drained()


async def test_a_flush_takes_no_more_than_its_limit() -> None:
    flushes = _Flushes()
    desk = Coalescer[int, int](flushes, most=3)
    await asyncio.gather(*(desk.submit(item) for item in range(7)))
    assert [len(batch) for batch in flushes.batches] == [3, 3, 1]


async def test_a_flush_that_is_cancelled_by_nobody_fails_its_callers_and_the_next_one_works() -> None:
    cancelled = False

    async def flush(items: Sequence[int]) -> Sequence[int]:
        nonlocal cancelled
        await asyncio.sleep(0)
        if not cancelled:
            cancelled = True
            raise asyncio.CancelledError
        return items

    desk = Coalescer[int, int](flush)
    async with asyncio.timeout(5):
        told = await asyncio.gather(*(desk.submit(item) for item in (1, 2)), return_exceptions=True)
        assert [type(error) for error in told] == [asyncpg.ConnectionDoesNotExistError] * 2
        assert await desk.submit(4) == 4


async def test_a_flush_that_answers_too_little_leaves_no_caller_waiting() -> None:
    async def flush(items: Sequence[int]) -> Sequence[int]:
        return items[:1]

    desk = Coalescer[int, int](flush)
    async with asyncio.timeout(5):
        told = await asyncio.gather(*(desk.submit(item) for item in (1, 2)), return_exceptions=True)
    assert told[0] == 1
    assert isinstance(told[1], RuntimeError)
