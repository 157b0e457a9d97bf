"""A claim of several types leaves aside what was taken before, and misses nothing below a mark for long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, cast
from uuid import UUID, uuid4

import asyncpg
import pytest

from libs.common.lane import Connection
from services.task import statements_claim
from services.task.repository_claim import Marks, claim
from services.task.repository_create import NewTask, create
from tests.integration.task.service import new_type


class _Watched:
    """A connection that notes from where each look at several types goes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.starts: list[list[datetime]] = []

    async def fetch(self, statement: str, *given: Any) -> Any:
        if statement == statements_claim.SHARES:
            self.starts.append(given[2])
        return await self._connection.fetch(statement, *given)


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    """Give a connection."""
    opened = await asyncpg.connect(database_url)
    yield opened
    await opened.close()


async def _create(connection: Connection, kind: str, count: int, *, seconds_ago: int) -> set[UUID]:
    new = [NewTask(uuid4(), False, "", kind, 0, b"", b"", "", "", "", 5, None) for _ in range(count)]
    made = {answer.row["id"] for answer in await create(connection, new)}
    await connection.execute(
        "UPDATE task.tasks SET claim_order = now() - make_interval(secs => $2) WHERE id = ANY($1::uuid[])",
        list(made),
        seconds_ago,
    )
    return made


async def test_a_claim_of_several_types_begins_at_their_marks_and_looks_below_them_when_that_is_due(
    connection: Connection,
) -> None:
    kinds = sorted([new_type(), new_type()])
    watched, marks = _Watched(connection), Marks()

    async def taken(count: int) -> set[UUID]:
        claimed = await claim(cast(Connection, watched), kinds, ["w"] * count, marks)
        return {item.row["id"] for item in claimed}

    first = await _create(connection, kinds[0], 6, seconds_ago=60)
    assert len(await taken(3)) == 3
    assert len(await taken(2)) == 2
    [beginning, _], [mark, still] = watched.starts
    assert beginning.year == still.year == 1
    assert mark.year > 1
    # What lies below the mark is found as soon as a full look is due: here, because there is too little.
    below = await _create(connection, kinds[0], 1, seconds_ago=3600)
    await connection.execute(
        "DELETE FROM task.tasks WHERE type = $1 AND status = 'pending' AND id = ANY($2)",
        kinds[0],
        list(first),
    )
    marks.forget(kinds)
    assert await taken(2) == below
    assert await taken(2) == set()
