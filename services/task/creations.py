"""The desk for new tasks: single creations share one statement, a batch has its own transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import asyncpg

from libs.common.coalesce import Coalescer, interrupted, spoilt_by_an_item
from libs.common.lane import Lane
from services.task.errors import RequestIdReused
from services.task.repository_create import Created, NewTask, Starter, create
from services.task.states import Status
from services.task.waiters import Loan


class Lender(Protocol):
    """Who knows the callers that wait for work."""

    def lend(self, task_type: str) -> Loan | None:
        """Lend somebody who waits for a task of this type."""

    def hand_over(self, loan: Loan, row: asyncpg.Record | None) -> None:
        """End a loan with the task that began, or None."""


class CreateDesk:
    """Adds tasks, and lets those that somebody waits for here begin at once.

    `on_created` is told, after the commit, the rows that are new.
    """

    def __init__(
        self, lane: Lane, lender: Lender, *, on_created: Callable[[Sequence[asyncpg.Record]], None]
    ) -> None:
        self._lane = lane
        self._lender = lender
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
        # Not handed over one by one: a claim spreads several tasks over the slots of those who wait.
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
        loans: list[Loan | None] = []
        try:
            # Each for itself: nothing to hold together by a transaction, which would cost two round trips.
            async with self._lane.statements() as connection:
                loans = [self._lender.lend(task.type) if task.run_after is None else None for task in tasks]
                starters = [Starter(loan.waiter.worker_id, loan.mark) if loan else None for loan in loans]
                answers = await create(connection, tasks, starters)
        except (Exception, asyncio.CancelledError) as error:
            self._end_loans(loans, error)
            raise
        for loan, answer in zip(loans, answers, strict=True):
            if loan is not None:
                self._lender.hand_over(loan, _begun(answer))
        self._tell(answers)
        return answers

    def _end_loans(self, loans: Sequence[Loan | None], error: Exception | asyncio.CancelledError) -> None:
        """Let those lent wait on if nothing was written; else tell them that something may have begun.

        Only who misses an answer beats although it holds nothing, and so gets it given back (domain.md 1.4).
        """
        for loan in filter(None, loans):
            if spoilt_by_an_item(error):
                self._lender.hand_over(loan, None)
            else:
                loan.waiter.refuse(error if isinstance(error, Exception) else interrupted(error))

    def _tell(self, answers: Sequence[Created]) -> None:
        new = [answer.row for answer in answers if answer.new]
        if new:
            self._on_created(new)


def _begun(created: Created) -> asyncpg.Record | None:
    """Return the task's row if it began with its creation."""
    return created.row if created.new and created.row["status"] == Status.PROCESSING else None


def _refuse_clash(created: Created) -> None:
    if created.clash:
        raise RequestIdReused.of(str(created.row["id"]))
