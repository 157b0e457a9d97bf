"""Bring one context's schema up to date, and check that it is what the models say.

Each context owns one PostgreSQL schema and keeps its revisions in ``services/<ctx>/migrations``,
with its own version table inside its own schema. ``env.py`` there is three lines that call
``run_env``. Revisions use nothing newer than PostgreSQL 15 and expand before they contract, since the
previous release runs beside the new schema (docs/upgrades.md).

    python -m libs.common.migrate upgrade  <ctx> --url postgresql://...
    python -m libs.common.migrate check    <ctx> --url postgresql://...
    python -m libs.common.migrate revision <ctx> --url postgresql://... -m "add a column"
"""

import argparse
import asyncio
import importlib.util
import re
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from alembic import command, context, op
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, MetaData, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from libs.common.db import async_url, sqlstate
from libs.common.loops import backoff_seconds

log = structlog.get_logger(__name__)

VERSION_TABLE = "alembic_version"
_LOCK_TIMEOUT_MS = 5000
_LOCK_ATTEMPTS = 5
_LOCK_POLL_SECONDS = 0.1
# It waited for too long, or it and a transaction that uses two of its tables in another order for each other.
_LOCK_NOT_AVAILABLE, _DEADLOCK = "55P03", "40P01"
# One key space for all contexts' locks: "frmg" in ASCII.
_LOCK_CLASS = 0x66726D67
# alembic.context is one global proxy per process: two upgrades in two threads would swap their connections
_alembic = threading.Lock()


def migrations_folder(ctx: str) -> Path:
    """Return the folder that holds a context's revisions. Raises ``LookupError`` when there is none."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", ctx):
        raise LookupError(f"{ctx!r} is no name of a context")
    spec = importlib.util.find_spec(f"services.{ctx}")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / "migrations"
        if (folder / "env.py").is_file():
            return folder
    raise LookupError(f"the context {ctx!r} has no services/{ctx}/migrations/env.py")


async def upgrade(database_url: str, ctx: str, *, revision: str = "head") -> None:
    """Create the schema of ``ctx`` where it is missing and run its revisions up to ``revision``.

    Any number of processes may call this at once: an advisory lock lets one work, and the others find
    nothing left to do. Each revision is a transaction of its own. A revision that cannot lock a busy
    table within 5 s, or meets a deadlock with traffic, gives up its place in the queue and is tried again,
    five times, so that traffic is never blocked for long. A schema that a newer release has upgraded stays
    as it is: this release works beside it (docs/upgrades.md). May be called from a running event loop; the
    work is done in a thread.
    """
    await _in_thread(database_url, ctx, lambda config: command.upgrade(config, revision), create_schema=True)
    log.info("migrate.upgraded", ctx=ctx)


@dataclass(frozen=True)
class Status:
    """Where a schema stands: its revision ('' before the first), and the newest one.

    ``pending`` are those between, oldest first, as (revision, what it does); None when the schema's own
    revision isn't known here.
    """

    revision: str
    head: str
    pending: tuple[tuple[str, str], ...] | None


async def status(database_url: str, ctx: str) -> Status:
    """Tell how far the schema of ``ctx`` is; write nothing, wait for nobody. Raises ``LookupError``."""
    engine = create_async_engine(async_url(database_url), poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            revision = await revision_of(connection, ctx)
    finally:
        await engine.dispose()
    return standing(ctx, revision)


async def revision_of(connection: AsyncConnection, ctx: str) -> str:
    """Return the revision of the schema of ``ctx``; empty before the first one."""
    table = f'"{ctx}".{VERSION_TABLE}'
    if await connection.scalar(text("SELECT to_regclass(:name)"), {"name": table}) is None:
        return ""
    query = text(f"SELECT version_num FROM {table}")  # noqa: S608  (a context's name)
    return str(await connection.scalar(query) or "")


def standing(ctx: str, revision: str) -> Status:
    """Compare a revision of ``ctx`` with those that are known here. Raises ``LookupError``."""
    known = ScriptDirectory(str(migrations_folder(ctx)))
    history = [(script.revision, script.doc) for script in known.walk_revisions()]
    names = [name for name, _ in history]
    head = names[0] if names else ""
    if revision and revision not in names:
        return Status(revision, head, None)
    newer = history[: names.index(revision)] if revision else history
    return Status(revision, head, tuple(reversed(newer)))


async def check(database_url: str, ctx: str) -> None:
    """Compare the schema of ``ctx`` with its models; write nothing.

    Raises ``alembic.util.exc.AutogenerateDiffsDetected`` naming each difference, or
    ``alembic.util.exc.CommandError`` when the database is not at the newest revision.
    """
    await _in_thread(database_url, ctx, command.check)


async def revision(database_url: str, ctx: str, message: str) -> None:
    """Write a new revision from the difference between the models and the database; for developers."""
    await _in_thread(
        database_url,
        ctx,
        lambda config: command.revision(config, message=message, autogenerate=True),
        create_schema=True,
    )


async def _in_thread(
    database_url: str, ctx: str, run: Callable[[Config], Any], *, create_schema: bool = False
) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder(ctx)).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    if create_schema:
        config.attributes["create_schema"] = True
    await asyncio.to_thread(asyncio.run, _locked(database_url, ctx, config, run))


async def _locked(database_url: str, ctx: str, config: Config, run: Callable[[Config], Any]) -> None:
    engine = create_async_engine(
        async_url(database_url),
        poolclass=NullPool,
        connect_args={"server_settings": {"application_name": f"frontrow-migrate-{ctx}"}},
    )
    try:
        async with engine.connect() as connection:
            await _take_lock(connection, ctx)
            if config.attributes.get("create_schema"):
                await _ensure_schema(connection, ctx)
            elif not await connection.scalar(text(f"SELECT to_regclass('{ctx}.{VERSION_TABLE}')")):
                # alembic's own check would make the version table
                raise CommandError(f"the schema {ctx} is not there yet: upgrade it first")
            # whatever ran before alembic's configure must be committed, or alembic takes part in that
            # transaction and its own commits write nothing
            present = await revision_of(connection, ctx)
            await connection.commit()
            if config.attributes.get("create_schema") and standing(ctx, present).pending is None:
                log.warning("migrate.newer_schema", ctx=ctx, revision=present)
                return
            await _run_patiently(connection, config, run)
    finally:
        await engine.dispose()  # closing the connection releases the lock


async def _ensure_schema(connection: AsyncConnection, ctx: str) -> None:
    # Asked first: the schema's own role may not create schemas, and IF NOT EXISTS is refused all the same.
    if await connection.scalar(text("SELECT to_regnamespace(:ctx)"), {"ctx": f'"{ctx}"'}) is None:
        await connection.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{ctx}"'))


async def _take_lock(connection: AsyncConnection, ctx: str) -> None:
    # Asked for again and again: a statement that waits has an old snapshot, and an index that the lock's
    # holder builds concurrently would wait for that in turn.
    asked = text("SELECT pg_try_advisory_lock(:class, :key)")
    key = {"class": _LOCK_CLASS, "key": zlib.crc32(ctx.encode()) - 2**31}
    while not await connection.scalar(asked, key):
        await connection.commit()
        await asyncio.sleep(_LOCK_POLL_SECONDS)
    # after the advisory lock, which may be waited for as long as another process migrates
    await connection.execute(text(f"SET lock_timeout = {_LOCK_TIMEOUT_MS}"))
    await connection.commit()


async def _run_patiently(connection: AsyncConnection, config: Config, run: Callable[[Config], Any]) -> None:
    for attempt in range(1, _LOCK_ATTEMPTS + 1):
        try:
            await connection.run_sync(_run_alembic, config, run)
        except DBAPIError as error:
            if sqlstate(error) not in {_LOCK_NOT_AVAILABLE, _DEADLOCK} or attempt == _LOCK_ATTEMPTS:
                raise
            await connection.rollback()
            log.warning("migrate.lock_not_available", attempt=attempt, sqlstate=sqlstate(error))
            await asyncio.sleep(backoff_seconds(attempt, first=1.0))
        else:
            return


def _run_alembic(connection: Connection, config: Config, run: Callable[[Config], Any]) -> None:
    with _alembic:
        config.attributes["connection"] = connection
        run(config)


def run_env(metadata: MetaData, schema: str) -> None:
    """Be the body of a context's ``migrations/env.py``.

    Only the context's own schema is looked at: without that limit a comparison with the models would
    propose to drop every other context's tables.
    """
    connection = context.config.attributes.get("connection")
    if connection is None:
        raise RuntimeError(f"run this through `python -m libs.common.migrate <command> {schema} --url ...`")

    def own(name: str | None, type_: str, parents: Any) -> bool:
        if type_ == "schema":
            return name == schema
        return bool(parents.get("schema_name") == schema)

    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table_schema=schema,
        include_schemas=True,
        include_name=own,
        compare_type=True,
        compare_server_default=True,
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()


def build_index(schema: str, name: str, definition: str, *, unique: bool = False) -> None:
    """Build an index beside the traffic; for revisions, inside of an `autocommit_block`.

    `definition` is what follows ON, its table without the schema. An index that is there stays; one that a
    broken run left unfinished is built anew.
    """
    valid = op.get_bind().scalar(
        text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)"),
        {"name": f"{schema}.{name}"},
    )
    if valid:
        return
    op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {schema}.{name}")
    op.execute(f"CREATE {'UNIQUE ' * unique}INDEX CONCURRENTLY {name} ON {schema}.{definition}")


def main(arguments: list[str] | None = None) -> None:
    """Run one command from the command line."""
    parser = argparse.ArgumentParser(prog="python -m libs.common.migrate")
    parser.add_argument("command", choices=["upgrade", "check", "revision"])
    parser.add_argument("ctx", help="the context, e.g. task")
    parser.add_argument("--url", required=True, help="postgresql://user:password@host/name")
    parser.add_argument("-m", "--message", default="change", help="what a new revision does")
    options = parser.parse_args(arguments)
    if options.command == "upgrade":
        asyncio.run(upgrade(options.url, options.ctx))
    elif options.command == "check":
        asyncio.run(check(options.url, options.ctx))
    else:
        asyncio.run(revision(options.url, options.ctx, options.message))


if __name__ == "__main__":
    main()
