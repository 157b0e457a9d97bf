"""Catch what is asked of a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from libs.common.db import Database


@contextmanager
def statements(database: Database) -> Iterator[list[tuple[str, Any]]]:
    """Collect what is asked of the database inside the block: each statement with its parameters."""
    seen: list[tuple[str, Any]] = []
    engine = database.engine.sync_engine

    def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        seen.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", note)
