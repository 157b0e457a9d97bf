"""The desk for claims and finishes outlives whatever happens to one flush; no caller is left waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, cast
from uuid import uuid4

import asyncpg
import pytest

from libs.common.lane import Lane
from services.task import flush
from services.task.limits import TypeLimits
from services.task.repository_claim import Claimed, Look
from services.task.repository_end import REPLY_LOST, Answer, Backoff, Ended, EndedRow, Ending, EndResult
from services.task.settings import TaskSettings
from services.task.states import End
from services.task.waiters import Waiter
from services.task.work import WorkDesk


class _Lane:
    """A lane whose next transactions fail as told, the first first."""

    def __init__(self, *failures: BaseException) -> None:
        self._failures = list(failures)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        if self._failures:
            raise self._failures.pop(0)
        yield None

    statements = transaction


async def _end_all(_connection: object, endings: Sequence[Ending], _backoff: Backoff) -> list[EndedRow]:
    return [EndedRow(index, ending.task_id, "t", "completed", None) for index, ending in enumerate(endings)]


async def _settle_all(_connection: object, endings: Sequence[Ending], _rows: object) -> EndResult:
    answers: list[Answer] = ["applied"] * len(endings)
    return EndResult(answers, [])


async def _claim_none(*_: object) -> Look:
    return Look([], datetime.min, edged=False)


async def _claim_no_more(*_: object) -> list[Claimed]:
    return []


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., WorkDesk]:
    """Give what makes a desk over a lane that fails as told."""
    monkeypatch.setattr(flush, "end_given", _end_all)
    monkeypatch.setattr(flush, "settle", _settle_all)
    monkeypatch.setattr(flush, "first_look", _claim_none)
    monkeypatch.setattr(flush, "second_look", _claim_no_more)

    def make(*failures: BaseException, on_change: Callable[..., None] = lambda *_: None) -> WorkDesk:
        lane = cast(Lane, _Lane(*failures))
        return WorkDesk(lane, TypeLimits(TaskSettings()), Backoff(1, 1), on_change)

    return make


def _ending() -> Ending:
    return Ending(uuid4(), 1, End.COMPLETED)


async def test_a_flush_that_is_cancelled_by_nobody_fails_its_callers_and_the_next_one_works(
    desk: Callable[..., WorkDesk],
) -> None:
    made = desk(asyncio.CancelledError())
    async with asyncio.timeout(5):
        told = await asyncio.gather(*(made.end([_ending()]) for _ in range(3)), return_exceptions=True)
        assert [type(error) for error in told] == [asyncpg.ConnectionDoesNotExistError] * 3
        assert await made.end([_ending()]) == ["applied"]


async def test_a_claim_whose_flush_is_cancelled_by_nobody_is_told_so(desk: Callable[..., WorkDesk]) -> None:
    made = desk(asyncio.CancelledError())
    async with asyncio.timeout(5):
        with pytest.raises(asyncpg.ConnectionDoesNotExistError):
            await made.claim_or_wait(Waiter("w", ("t",), 1), 60, lambda: False)
    assert made.waiting == 0


async def test_a_word_that_cannot_be_spread_keeps_no_caller_from_its_answer(
    desk: Callable[..., WorkDesk],
) -> None:
    def broken(*_: object) -> None:
        raise LookupError("nobody listens")

    made = desk(on_change=broken)
    async with asyncio.timeout(5):
        for _ in range(2):
            assert await made.end([_ending()]) == ["applied"]


async def test_the_end_of_the_runner_itself_leaves_no_caller_waiting(
    desk: Callable[..., WorkDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = desk()
    monkeypatch.setattr(made, "_deliver", lambda *_: 1 / 0)
    async with asyncio.timeout(5):
        with pytest.raises(RuntimeError, match="without an answer"):
            await made.end([_ending()])


async def test_what_a_first_look_claimed_is_handed_out_although_the_second_one_failed(
    desk: Callable[..., WorkDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def claim_one(*_: object) -> Look:
        claimed = [Claimed(0, cast(asyncpg.Record, {"id": uuid4(), "version": 1}))]
        return Look(claimed, datetime.min, edged=True)

    async def break_off(*_: object) -> list[Claimed]:
        raise asyncpg.ConnectionDoesNotExistError("cut")

    monkeypatch.setattr(flush, "first_look", claim_one)
    monkeypatch.setattr(flush, "second_look", break_off)
    made = desk()
    first, second = (Waiter(name, ("t",), 1) for name in ("w1", "w2"))
    async with asyncio.timeout(5):
        served, refused = await asyncio.gather(
            made.end_and_claim((), first), made.end_and_claim((), second), return_exceptions=True
        )
    assert not isinstance(served, BaseException)
    assert len(served[1]) == 1
    assert isinstance(refused, asyncpg.ConnectionDoesNotExistError)


async def test_finishes_that_are_committed_are_answered_although_the_claim_after_them_failed(
    desk: Callable[..., WorkDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end_all(*given: Any) -> tuple[list[EndedRow], Look]:
        return await _end_all(*given[:3]), await _claim_none()

    async def break_off(*_: object) -> list[Claimed]:
        raise asyncpg.ConnectionDoesNotExistError("cut")

    monkeypatch.setattr(flush, "end_and_claim", end_all)
    monkeypatch.setattr(flush, "second_look", break_off)
    made = desk()
    async with asyncio.timeout(5):
        answers, refused = await asyncio.gather(
            made.end([_ending()]), made.end_and_claim((), Waiter("w", ("t",), 1)), return_exceptions=True
        )
    assert answers == ["applied"]
    assert isinstance(refused, asyncpg.ConnectionDoesNotExistError)


class _Committed:
    """A statement that ends runs and claims one task is committed; the look at the records fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
        self.ended: list[Ending] = []
        self.claimed: list[asyncpg.Record] = []
        self._error: BaseException | None = error
        monkeypatch.setattr(flush, "end_given", self._end)
        monkeypatch.setattr(flush, "end_and_claim", self._end_and_claim)
        monkeypatch.setattr(flush, "settle", self._settle)

    async def _end(self, connection: object, endings: Sequence[Ending], backoff: Backoff) -> list[EndedRow]:
        self.ended += endings
        return await _end_all(connection, endings, backoff)

    async def _end_and_claim(
        self, connection: object, endings: Sequence[Ending], backoff: Backoff, *_: object
    ) -> tuple[list[EndedRow], Look]:
        row = cast(asyncpg.Record, {"id": uuid4(), "version": 7})
        self.claimed.append(row)
        look = Look([Claimed(0, row)], datetime.min, edged=False)
        return await self._end(connection, endings, backoff), look

    async def _settle(self, connection: object, endings: Sequence[Ending], rows: object) -> EndResult:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return await _settle_all(connection, endings, rows)


_LOST = asyncpg.ConnectionDoesNotExistError("cut")
_DEADLOCK = asyncpg.DeadlockDetectedError("two in a circle")


@pytest.mark.parametrize("error", [_LOST, _DEADLOCK, asyncio.CancelledError()])
async def test_what_was_claimed_beside_ends_whose_answers_are_lost_goes_back_and_is_not_claimed_twice(
    desk: Callable[..., WorkDesk], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    told: list[Ended] = []
    committed = _Committed(monkeypatch, error)
    made = desk(on_change=lambda ended, _claimed: told.extend(ended))
    first, second = _ending(), _ending()
    async with asyncio.timeout(5):
        refused = await asyncio.gather(
            made.end_and_claim([first], Waiter("w", ("t",), 1)), made.end([second]), return_exceptions=True
        )
        await made.drained()
    expected = (
        asyncpg.ConnectionDoesNotExistError if error is not _DEADLOCK else asyncpg.DeadlockDetectedError
    )
    assert [type(refusal) for refusal in refused] == [expected] * 2
    [row] = committed.claimed
    assert committed.ended[:2] == [first, second]
    [given_back] = committed.ended[2:]
    assert (given_back.task_id, given_back.version) == (row["id"], row["version"])
    assert (given_back.ended_as, given_back.reason) == (End.RELEASED, REPLY_LOST)
    assert {task.task_id for task in told} == {first.task_id, second.task_id, row["id"]}


async def test_ends_whose_answers_are_lost_are_spread_and_not_done_again(
    desk: Callable[..., WorkDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Ended] = []
    committed = _Committed(monkeypatch, _DEADLOCK)
    made = desk(on_change=lambda ended, _claimed: told.extend(ended))
    endings = [_ending(), _ending()]
    async with asyncio.timeout(5):
        refused = await asyncio.gather(*(made.end([one]) for one in endings), return_exceptions=True)
    assert [type(refusal) for refusal in refused] == [asyncpg.DeadlockDetectedError] * 2
    assert committed.ended == endings
    assert [task.task_id for task in told] == [one.task_id for one in endings]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (_LOST, True),
        (asyncpg.AdminShutdownError("terminated"), True),
        (asyncio.CancelledError(), True),
        (asyncpg.ClientCannotConnectError("nobody listens"), False),
        (asyncpg.QueryCanceledError("too long"), False),
    ],
)
async def test_who_waits_is_told_when_a_task_may_have_been_claimed_for_it(
    desk: Callable[..., WorkDesk], error: BaseException, told: bool
) -> None:
    made, waiter = desk(error), Waiter("w", ("t",), 1)
    made._room.add(waiter)
    made._room.settle(waiter)
    waiting = asyncio.ensure_future(made.claim_or_wait(waiter, 60, lambda: False))
    async with asyncio.timeout(5):
        await asyncio.sleep(0)
        made.signal("t")
        await made.drained()
        assert waiter.delivery.done() == told
        made.dismiss()
        [answer] = await asyncio.gather(waiting, return_exceptions=True)
    assert isinstance(answer, asyncpg.PostgresError) if told else answer == []


async def test_an_empty_answer_rests_on_a_look_during_the_call(
    desk: Callable[..., WorkDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    async def count(*_: object) -> Look:
        nonlocal looks
        looks += 1
        return await _claim_none()

    monkeypatch.setattr(flush, "first_look", count)
    made = desk()
    async with asyncio.timeout(5):
        first = asyncio.ensure_future(made.claim_or_wait(Waiter("w1", ("t",), 1), 60, lambda: False))
        await asyncio.sleep(0.05)
        assert looks == 1
        assert await made.claim_or_wait(Waiter("w2", ("t",), 1), 0.05, lambda: False) == []
        assert looks == 2  # since the first waiter's look anything may have come
        late = asyncio.ensure_future(made.claim_or_wait(Waiter("w3", ("t",), 1), 0.1, lambda: False))
        await asyncio.sleep(0.05)
        made.note_empty(["s", "t"], asyncio.get_running_loop().time())
        assert await late == []
        made.dismiss()
        assert await first == []
    assert looks == 2  # the poll has looked for all


async def test_an_empty_answer_is_none_when_the_last_look_failed(desk: Callable[..., WorkDesk]) -> None:
    made = desk()
    async with asyncio.timeout(5):
        first = asyncio.ensure_future(made.claim_or_wait(Waiter("w1", ("t",), 1), 60, lambda: False))
        await asyncio.sleep(0.05)
        made._flush._lane = cast(Lane, _Lane(asyncpg.ClientCannotConnectError("nobody listens")))
        with pytest.raises(asyncpg.ClientCannotConnectError):
            await made.claim_or_wait(Waiter("w2", ("t",), 1), 0.05, lambda: False)
        made.dismiss()
        assert await first == []
