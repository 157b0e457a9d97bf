"""Statements with named parameters for the driver's own connection, which knows them by position."""

from __future__ import annotations

import re
from collections.abc import Sequence

import asyncpg

from libs.common.lane import Connection

_NAME = re.compile(r"(?<!:):([a-z_]+)")


class Statement:
    """One SQL text whose parameters are written `:name`; make it once and ask it often.

    The database infers each parameter's type from where it stands first: where that says nothing, the text
    casts it.
    """

    def __init__(self, text: str) -> None:
        self._names = list(dict.fromkeys(_NAME.findall(text)))
        self.text = text
        self.by_position = _NAME.sub(lambda found: f"${self._names.index(found[1]) + 1}", text)

    def arguments(self, values: dict[str, object]) -> list[object]:
        """Return the values by position. Raises KeyError for one that is missing; others are left out."""
        return [values[name] for name in self._names]

    async def row(self, connection: Connection, **values: object) -> asyncpg.Record | None:
        """Return the first row, None when there is none."""
        row: asyncpg.Record | None = await connection.fetchrow(self.by_position, *self.arguments(values))
        return row

    async def rows(self, connection: Connection, **values: object) -> Sequence[asyncpg.Record]:
        """Return all rows."""
        rows: Sequence[asyncpg.Record] = await connection.fetch(self.by_position, *self.arguments(values))
        return rows
