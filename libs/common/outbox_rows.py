"""The statements of an outbox's relay: lease what is due, forget what was sent, give back the rest."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Integer,
    Table,
    Text,
    all_,
    any_,
    bindparam,
    delete,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.dml import ReturningUpdate
from sqlalchemy.sql.selectable import NamedFromClause

from libs.common.db import Database


class Row(NamedTuple):
    """A row that is leased, until when; ``attempts`` counts this try, too."""

    id: int
    subject: str
    kind: str
    body: bytes
    attempts: int
    trace_parent: str
    locked_until: datetime


class OutboxRows:
    """The rows of one outbox; each operation is a transaction of its own."""

    def __init__(self, database: Database, table: Table, *, lease_seconds: float) -> None:
        """Work on ``table``, as ``libs.common.outbox_table.outbox_table`` defines it."""
        self._database = database
        self._table = table
        # made once: putting them together takes longer than running them
        row = table.alias("o")
        self._claim = _claim(table, row, lease_seconds, row.c.kind != all_(_PAUSED))
        self._claim_next = _claim(table, row, lease_seconds, row.c.kind == _KIND, row.c.id > _AFTER)
        self._forget = delete(table).where(table.c.id == any_(_IDS))

    async def claim(self, limit: int, *, paused: Sequence[str] = ()) -> list[Row]:
        """Lease the oldest live row of each subject that is due, at most ``limit``, none of a paused kind."""
        return await self._lease(self._claim, {"most": limit, "paused": list(paused)})

    async def claim_next(self, kind: str, after: int) -> list[Row]:
        """Lease one such row of a kind: the next behind the one with the id ``after``, else the first."""
        wanted = {"most": 1, "only": kind}
        found = await self._lease(self._claim_next, {**wanted, "after": after})
        return found or await self._lease(self._claim_next, {**wanted, "after": 0})

    async def _lease(self, statement: ReturningUpdate[Any], values: Mapping[str, Any]) -> list[Row]:
        async with self._begin() as session:
            return [Row(*found) for found in (await session.execute(statement, values)).all()]

    async def forget(self, calls: Sequence[Sequence[Row]]) -> Sequence[None]:
        """Delete the rows of calls that were made."""
        async with self._begin() as session:
            await session.execute(self._forget, {"ids": [row.id for rows in calls for row in rows]})
        return [None] * len(calls)

    async def give_back(
        self,
        rows: Sequence[Row],
        *,
        last_error: str,
        delay_seconds: float = 0.0,
        dead: bool = False,
        counted: bool = True,
    ) -> None:
        """End the leases of rows that were leased together, but for those leased by another relay since.

        They are due after ``delay_seconds``, or never when they are ``dead``. A try that is not ``counted``
        was none of theirs.
        """
        table = self._table
        change = (
            update(table)
            .where(table.c.id == any_(_IDS), table.c.locked_until == rows[0].locked_until)
            .values(
                locked_until=None,
                last_error=last_error[:4000].replace("\x00", ""),
                next_attempt_at=_in_seconds(delay_seconds),
                **({"dead_at": func.now()} if dead else {}),
                **({} if counted else {"attempts": table.c.attempts - 1}),
            )
        )
        async with self._begin() as session:
            await session.execute(change, {"ids": [row.id for row in rows]})

    @asynccontextmanager
    async def _begin(self) -> AsyncIterator[AsyncSession]:
        async with self._database.begin() as session:
            await session.execute(_BY_INDEX)
            yield session


# An outbox is empty one moment and long the next: what the planner last heard of it may be wrong by any
# factor, and a plan for an empty table looks at each pair of rows of a long one.
_BY_INDEX = select(
    *(
        func.set_config(f"enable_{way}", "off", True)
        for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin", "sort")
    )
)
# One text, whatever the number: it is prepared once.
_IDS = bindparam("ids", type_=ARRAY(BigInteger))
_PAUSED = bindparam("paused", type_=ARRAY(Text))
_KIND = bindparam("only", type_=Text)
_AFTER = bindparam("after", type_=BigInteger)


def _claim(
    table: Table, row: NamedFromClause[Any], lease_seconds: float, *wanted: ColumnElement[bool]
) -> ReturningUpdate[Any]:
    earlier = table.alias("earlier")
    # a subject whose oldest row waits for its next try has nothing due: that keeps the order
    head = (
        select(row.c.id)
        .where(
            *wanted,
            row.c.dead_at.is_(None),
            row.c.next_attempt_at <= func.now(),
            func.coalesce(row.c.locked_until, func.now()) <= func.now(),
            ~select(literal_column("1"))
            .select_from(earlier)
            .where(earlier.c.subject == row.c.subject, earlier.c.id < row.c.id, earlier.c.dead_at.is_(None))
            .exists(),
        )
        .order_by(row.c.id)
        .limit(bindparam("most", type_=Integer))
        .with_for_update(of=row, skip_locked=True)
        .cte("head")
        .prefix_with("MATERIALIZED")
    )
    return (
        update(table)
        .where(table.c.id == head.c.id)
        .values(attempts=table.c.attempts + 1, locked_until=_in_seconds(lease_seconds))
        .returning(*(table.c[name] for name in Row._fields))
    )


def _in_seconds(seconds: float) -> ColumnElement[datetime]:
    return func.now() + timedelta(seconds=seconds)
