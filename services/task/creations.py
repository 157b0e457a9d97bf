"""The desk for new tasks: single creations share one statement, a batch has its own transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import asyncpg

from services.task.coalesce import Coalescer
from services.task.errors import RequestIdReused
from services.task.lane import Lane
from services.task.repository_create import Created, NewTask, create


class CreateDesk:
    """Adds tasks. `on_created` is told, after the commit, the rows that are new."""

    def __init__(self, lane: Lane, *, on_created: Callable[[Sequence[asyncpg.Record]], None]) -> None:
        self._lane = lane
        self._on_created = on_created
        self._calls = Coalescer[NewTask, Created](self._flush, most=500)

    async def create(self, task: NewTask) -> Created:
        """Add one task, or return the first under its ids.

        Raises:
            RequestIdReused: an id belongs to a task with other content.
        """
        created = await self._calls.submit(task)
        _refuse_clash(created)
        return created

    async def create_all(self, tasks: Sequence[NewTask]) -> list[Created]:
        """Add all tasks or none; those under known ids are returned as they are.

        Raises:
            RequestIdReused: an id belongs to a task with other content; nothing was added.
        """
        async with self._lane.transaction() as connection:
            answers = await create(connection, tasks)
            for answer in answers:
                _refuse_clash(answer)
        self._tell(answers)
        return answers

    async def drained(self) -> None:
        """Wait until no flush is in flight."""
        await self._calls.drained()

    async def _flush(self, tasks: Sequence[NewTask]) -> list[Created]:
        async with self._lane.transaction() as connection:
            answers = await create(connection, tasks)
        self._tell(answers)
        return answers

    def _tell(self, answers: Sequence[Created]) -> None:
        new = [answer.row for answer in answers if answer.new]
        if new:
            self._on_created(new)


def _refuse_clash(created: Created) -> None:
    if created.clash:
        raise RequestIdReused.of(str(created.row["id"]))
