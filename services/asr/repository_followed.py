"""Which rows the followers of tasks look at: the same reads for materials, projects and drafts."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Column, Select, Table, select, text, true

from libs.common.db import Database
from libs.common.follow import Followed

FAILED_FOLLOWED = 200
"""How many of the newest failed rows are looked at each time, and how many of the others in turn.

A person may retry the task of a failed row, which must be seen pending again; the poll stays bounded.
"""


class FollowedRows:
    """The rows of a table that tasks work for, read by three partial indexes."""

    def __init__(
        self,
        database: Database,
        table: Table,
        *,
        task_id: "Column[Any]",
        seen_version: "Column[Any]",
        status: "Column[Any]",
    ) -> None:
        self._database = database
        self._task_id = task_id
        self._wanted = select(table.c.id, task_id, seen_version)
        self._updated_at = table.c.updated_at
        # as text: a bound value proves nothing to a prepared plan, which then can't use the partial indexes
        self._active = text(f"{status.name} IN ('pending', 'processing')")
        self._failed = self._wanted.where(text(f"{status.name} = 'failed'"))

    async def current(self) -> Sequence[Followed]:
        """Return the rows that are pending or running, and those that failed lately."""
        newest = self._failed.order_by(self._updated_at.desc()).limit(FAILED_FOLLOWED)
        return await self._rows(self._wanted.where(self._active), newest)

    async def failed_of(self, task_ids: Sequence[str]) -> Sequence[Followed]:
        """Return the failed rows whose current task is one of these."""
        wanted = self._task_id.in_([UUID(task_id) for task_id in task_ids])
        return await self._rows(self._failed.where(wanted)) if task_ids else []

    async def failed_after(self, row: Followed | None) -> Sequence[Followed]:
        """Return the next failed rows in the order of their tasks."""
        later = self._task_id > UUID(row.task_id) if row else true()
        turn = self._failed.where(later).order_by(self._task_id)
        return await self._rows(turn.limit(FAILED_FOLLOWED))

    async def _rows(self, *queries: Select[Any]) -> list[Followed]:
        async with self._database.begin() as session:
            rows = [row for query in queries for row in await session.execute(query)]
        return [Followed(str(owner_id), str(task_id), seen) for owner_id, task_id, seen in rows]
