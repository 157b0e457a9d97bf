"""Dump some schemas of a database and put them back, by PostgreSQL's own programs.

The dump belongs to a snapshot that others read in, too: what they count and list is what the dump holds.
"""

import asyncio
import contextlib
import os
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from libs.common import child
from libs.common.db import async_url
from libs.common.postgres_client import find_client

_LONGEST_SECONDS = 24 * 3600.0
_BLOCK_BYTES = 1 << 20
# The settings stand at the beginning of a script; one of them is younger than the oldest server.
_HEAD_BYTES = 1 << 12
_UNKNOWN_BEFORE_17 = b"SET transaction_timeout = 0;\n"
_QUIET = {"statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}
_RELATIONS = "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"


class DumpFailed(Exception):
    """Carry what pg_dump or pg_restore said."""


@dataclass(frozen=True)
class Snapshot:
    """One state of the database, for as long as the connection's transaction is open."""

    connection: AsyncConnection
    snapshot_id: str

    async def server_version(self) -> str:
        """Return the server's release, such as `18.6`."""
        return str(await self.connection.scalar(text("SHOW server_version")))

    async def counts(self, schemas: Sequence[str]) -> dict[str, dict[str, int]]:
        """Return the number of rows of each table, by schema."""
        query = text(f"{_RELATIONS} WHERE n.nspname = ANY(:schemas) AND c.relkind = 'r' ORDER BY 1, 2")
        counted: dict[str, dict[str, int]] = {schema: {} for schema in schemas}
        for schema, table in (await self.connection.execute(query, {"schemas": list(schemas)})).all():
            number = await self.connection.scalar(text(f'SELECT count(*) FROM "{schema}"."{table}"'))  # noqa: S608
            counted[schema][table] = int(number or 0)
        return counted


@asynccontextmanager
async def snapshot(url: str) -> AsyncIterator[Snapshot]:
    """Hold one state of the database for a `with` block, without any limit of time."""
    engine = create_async_engine(
        async_url(url),
        poolclass=NullPool,
        isolation_level="REPEATABLE READ",
        connect_args={"server_settings": {"application_name": "frontrow-backup", **_QUIET}},
    )
    try:
        async with engine.connect() as connection:
            await connection.execute(text("SET TRANSACTION READ ONLY"))
            exported = await connection.scalar(text("SELECT pg_export_snapshot()"))
            yield Snapshot(connection, str(exported))
    finally:
        await engine.dispose()


async def dump(url: str, state: Snapshot, schemas: Sequence[str], file: Path) -> int:
    """Write the schemas of a snapshot into ``file``, compressed; return the major release of pg_dump.

    Raises DumpFailed, PostgresUnavailable.
    """
    client = find_client(_major(await state.server_version()), tls=_demands_tls(url))
    argv = [client.program("pg_dump"), "--format=custom", f"--file={file}", f"--snapshot={state.snapshot_id}"]
    await _dump([*argv, "--strict-names"], url, schemas)
    return client.major


async def restore(url: str, schemas: Sequence[str], file: Path, *, client_major: int) -> None:
    """Put all of a dump into schemas that are there and empty: everything, or nothing.

    What is made belongs to the role of ``url``. ``client_major`` is the release that wrote the dump.
    Raises DumpFailed, PostgresUnavailable.
    """
    async with snapshot(url) as state:
        oldest = max(client_major, _major(await state.server_version()))
    client = find_client(oldest, tls=_demands_tls(url))
    # Not by pg_restore alone: from release 17 on it sets what older servers don't know, and ends.
    reading = [client.program("pg_restore"), "--file=-", *_what(schemas), str(file)]
    place, environment = _where(url)
    writing = [client.program("psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]
    writing += ["--single-transaction", "--no-password", place]
    await _pipe(reading, writing, environment)


async def _pipe(reading: Sequence[str], writing: Sequence[str], environment: Mapping[str, str]) -> None:
    """Let one program read what the other writes; it meets the end only if the first did all it should."""
    with tempfile.TemporaryFile() as said:
        source = await asyncio.create_subprocess_exec(
            *child.command(reading), stdin=DEVNULL, stdout=PIPE, stderr=said, start_new_session=True
        )
        sink = await asyncio.create_subprocess_exec(
            *child.command(writing),
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=said,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        try:
            assert source.stdout is not None
            assert sink.stdin is not None
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                await _pump(source.stdout, sink.stdin)
                if await source.wait() == 0:
                    sink.stdin.close()
                    await sink.wait()
        finally:
            await child.kill(source)
            await child.kill(sink)
        if source.returncode or sink.returncode:
            said.seek(0)
            words = said.read().decode("utf-8", errors="replace").strip()
            raise DumpFailed(f"the dump can't be put back: {words[-2000:]}")


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    head = b""
    while len(head) < _HEAD_BYTES and (block := await source.read(_HEAD_BYTES - len(head))):
        head += block
    sink.write(head.replace(_UNKNOWN_BEFORE_17, b""))
    while block := await source.read(_BLOCK_BYTES):
        sink.write(block)
        await sink.drain()


async def _dump(argv: Sequence[str], url: str, schemas: Sequence[str]) -> None:
    place, environment = _where(url)
    ended = await child.run(
        [*argv, *_what(schemas), "--no-password", f"--dbname={place}"],
        timeout_seconds=_LONGEST_SECONDS,
        environment=environment,
    )
    if ended.returncode != 0:
        raise DumpFailed(f"pg_dump failed: {ended.stderr_text.strip()[-2000:]}")


def _what(schemas: Sequence[str]) -> list[str]:
    return ["--no-owner", "--no-privileges", *(f"--schema={schema}" for schema in schemas)]


def _where(url: str) -> tuple[str, dict[str, str]]:
    """Return a URL without its password, and that for the environment: everybody reads command lines."""
    parts = urlsplit(url)
    login, at, places = parts.netloc.rpartition("@")
    user, colon, password = login.partition(":")
    environment = {"PGPASSWORD": unquote(password)} if colon else {}
    return urlunsplit(parts._replace(scheme="postgresql", netloc=f"{user}{at}{places}")), environment


def _demands_tls(url: str) -> bool:
    mode = dict(parse_qsl(urlsplit(url).query)).get("sslmode", os.environ.get("PGSSLMODE", ""))
    return mode in {"require", "verify-ca", "verify-full"}


def _major(version: str) -> int:
    return int(version.partition(".")[0])
