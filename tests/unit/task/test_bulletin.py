"""What couldn't be told is told over the next connection, and what is unsaid at a stop goes out before it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from libs.common.settings import DatabaseSettings
from libs.common.testing import eventually
from services.task import bulletin
from services.task.bulletin import MOST_IDS, Bulletin


class _Connection:
    """A connection whose next statements fail as told; remembers the notices of the others."""

    def __init__(self, said: list[dict[str, Any]], failures: list[Exception]) -> None:
        self._said = said
        self._failures = failures

    def add_termination_listener(self, _: object) -> None:
        pass

    async def add_listener(self, *_: object) -> None:
        pass

    def is_closed(self) -> bool:
        return False

    def terminate(self) -> None:
        pass

    async def execute(self, _: str, _channel: str, text: str) -> None:
        await asyncio.sleep(0)
        if self._failures:
            raise self._failures.pop(0)
        self._said.append(json.loads(text))


@pytest.fixture
def said() -> list[dict[str, Any]]:
    """The notices that were sent."""
    return []


@pytest.fixture
def failures() -> list[Exception]:
    """What the next notices fail with, the first first."""
    return []


@pytest.fixture
def heard() -> list[tuple[object, ...]]:
    """What this server was told to look at."""
    return []


@pytest.fixture
def make(
    monkeypatch: pytest.MonkeyPatch, said: list[dict[str, Any]], failures: list[Exception],
    heard: list[tuple[object, ...]],
) -> Callable[[], Bulletin]:  # fmt: skip
    """Give what makes a bulletin over such connections."""

    async def connect(*_: object) -> _Connection:
        return _Connection(said, failures)

    monkeypatch.setattr(bulletin, "connect", connect)
    monkeypatch.setattr(bulletin, "backoff_seconds", lambda *_, **__: 0.01)
    return lambda: Bulletin(
        DatabaseSettings(url="postgresql://nowhere/x"),
        on_wake=lambda *given: heard.append(("wake", *given)),
        on_changed=lambda ids: heard.append(("changed", ids)),
        on_policy=lambda: heard.append(("policy",)),
    )


async def _all_said(said: list[dict[str, Any]], ids: set[UUID]) -> None:
    await eventually(lambda: {UUID(hex=one) for notice in said for one in notice["changed"] or []} == ids)


async def test_what_a_broken_connection_swallowed_is_said_over_the_next_one(
    make: Callable[[], Bulletin],
    said: list[dict[str, Any]],
    failures: list[Exception],
    heard: list[tuple[object, ...]],
) -> None:
    failures += [asyncpg.ConnectionDoesNotExistError("cut"), asyncpg.ConnectionDoesNotExistError("again")]
    made, (first, second) = make(), (uuid4(), uuid4())
    made.publish({"t": 2}, [first])
    made.publish_policy()
    async with asyncio.timeout(5):
        await made.start()
        await asyncio.sleep(0)
        made.publish({"t": 1}, [second])
        await _all_said(said, {first, second})
        await made.stop()
    assert sum(notice["wake"].get("t", 0) for notice in said) == 3
    assert sum("policy" in notice for notice in said) == 1
    # Each time it begins to listen, anything may have happened before.
    assert heard == [("wake", None, 1), ("changed", None), ("policy",)] * 3


async def test_the_last_words_go_out_before_a_stop(
    make: Callable[[], Bulletin], said: list[dict[str, Any]]
) -> None:
    made, first, last = make(), uuid4(), uuid4()
    async with asyncio.timeout(5):
        await made.start()
        made.publish({}, [first])
        await _all_said(said, {first})
        made.publish({"t": 1}, [last])
        await made.stop()
    assert (said[-1]["wake"], said[-1]["changed"]) == ({"t": 1}, [last.hex])
    assert len(said) == 2


async def test_a_stop_waits_for_no_connection_that_does_not_come(
    make: Callable[[], Bulletin], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(bulletin, "connect", never)
    made = make()
    async with asyncio.timeout(bulletin.LAST_WORD_SECONDS + 2):
        await made.start()
        made.publish({"t": 1}, [])
        await made.stop()


async def test_more_than_a_notice_can_name_is_said_as_everything(
    make: Callable[[], Bulletin], said: list[dict[str, Any]]
) -> None:
    made = make()
    made.publish({}, [uuid4() for _ in range(MOST_IDS + 1)])
    made.publish({}, [uuid4()])
    async with asyncio.timeout(5):
        await made.start()
        await eventually(lambda: said)
        await made.stop()
    assert [notice["changed"] for notice in said] == [None]
