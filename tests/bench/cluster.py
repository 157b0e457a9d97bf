"""The one PostgreSQL of a run, with the settings all queues are measured with."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import asyncpg

from libs.common import migrate
from libs.common.postgres import EmbeddedPostgres, find_binaries
from libs.common.postgres_place import remove_data

OPTIONS = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "fsync": "on",
    "synchronous_commit": "on",
    "max_connections": "250",
}
# An idle backend reports what it counted after this time at the latest.
STATISTICS_SECONDS = 10.6


class Cluster:
    """A fresh cluster below `folder`, removed again at the end: nothing in it is worth keeping."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "postgres"
        self._server = EmbeddedPostgres(self._data, options=OPTIONS)
        self.version = ""
        self.pid = 0

    async def start(self) -> None:
        """Make the cluster and start it."""
        remove_data(self._data)
        await self._server.start()
        self.pid = int((self._data / "postmaster.pid").read_text().splitlines()[0])
        connection = await self.connect("postgres")
        try:
            self.version = await connection.fetchval("SHOW server_version")
        finally:
            await connection.close()

    async def stop(self) -> None:
        """Stop the server and remove its data."""
        await self._server.stop()
        remove_data(self._data)

    def url(self, database: str) -> str:
        """Return a database's URL."""
        return self._server.url(database)

    async def connect(self, database: str) -> asyncpg.Connection[asyncpg.Record]:
        """Open a connection."""
        return await asyncpg.connect(self.url(database))

    async def make_database(self, name: str) -> str:
        """Make an empty database, in place of the one that had its name; return the URL."""
        connection = await self.connect("postgres")
        try:
            await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            await connection.execute(f'CREATE DATABASE "{name}"')
        finally:
            await connection.close()
        return self.url(name)

    async def make_context_database(self, name: str, context: str) -> str:
        """Make a database with a context's tables; return the URL."""
        url = await self.make_database(name)
        await migrate.upgrade(url, context)
        return url

    async def make_task_database(self, name: str) -> str:
        """Make a database with the task context's tables; return the URL."""
        return await self.make_context_database(name, "task")

    async def drop_database(self, name: str) -> None:
        """Remove a database with everybody who uses it."""
        connection = await self.connect("postgres")
        try:
            await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        finally:
            await connection.close()

    async def transactions(self, database: str) -> int:
        """Return the transactions ended so far in a database, asked for from another one."""
        connection = await self.connect("postgres")
        try:
            return int(
                await connection.fetchval(
                    "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1", database
                )
            )
        finally:
            await connection.close()

    async def settle(self, database: str) -> None:
        """Vacuum, analyse and write everything out, so that a measurement doesn't pay for its preparation."""
        connection = await self.connect(database)
        try:
            await connection.execute("VACUUM ANALYZE")
            await connection.execute("CHECKPOINT")
        finally:
            await connection.close()

    async def pgbench(self, database: str, *arguments: str, options: str = "") -> str:
        """Run pgbench against a database; return what it printed.

        It is taken from the folder in the environment's PGBIN, else from beside the server's programs.
        `options` are server settings of its connections, as in PGOPTIONS.
        """
        program = Path(os.environ.get("PGBIN") or find_binaries().folder) / "pgbench"
        process = await asyncio.create_subprocess_exec(
            str(program), *arguments, self.url(database), env={**os.environ, "PGOPTIONS": options},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        printed, _ = await process.communicate()
        if process.returncode:
            said = printed.decode(errors="replace").splitlines()
            raise RuntimeError(next((line for line in said if "ERROR" in line), said[-1]))
        return printed.decode()
