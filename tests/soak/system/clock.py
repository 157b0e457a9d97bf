"""A database whose clock jumps: for it everything else is late or early, for everything else it is.

The functions that tell the time are found in a schema of ours before PostgreSQL's own, and the defaults of
columns are put to them.
"""

from __future__ import annotations

import asyncpg

_INSTALL = """
CREATE SCHEMA soak_clock;
CREATE TABLE soak_clock.ahead (by interval NOT NULL);
INSERT INTO soak_clock.ahead VALUES ('0');
CREATE FUNCTION soak_clock.now() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT pg_catalog.now() + (SELECT by FROM soak_clock.ahead)';
CREATE FUNCTION soak_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT pg_catalog.clock_timestamp() + (SELECT by FROM soak_clock.ahead)';
ALTER DATABASE frontrow SET search_path = soak_clock, pg_catalog, public;
"""

_DEFAULTS = """
SELECT format('ALTER TABLE %I.%I ALTER COLUMN %I SET DEFAULT soak_clock.now()',
    table_schema, table_name, column_name)
FROM information_schema.columns
WHERE table_schema IN ('task', 'ingest', 'review', 'asr') AND column_default = 'now()'
"""


async def install(url: str) -> None:
    """Let the database tell the time of its new clock, to every session that begins from now on."""
    connection = await asyncpg.connect(url)
    changes = [row[0] for row in await connection.fetch(_DEFAULTS)]
    await connection.execute(_INSTALL)
    for change in changes:
        await connection.execute(change)
    await connection.close()


async def jump(url: str, seconds: float) -> None:
    """Put the clock forward, or back by a negative number."""
    connection = await asyncpg.connect(url)
    await connection.execute(f"UPDATE soak_clock.ahead SET by = by + interval '{seconds} seconds'")
    await connection.close()
