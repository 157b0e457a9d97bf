"""What the tests of every context stand on: databases made in a moment, real servers, patient checks."""

import asyncio
import inspect
import json
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, overload
from uuid import uuid4

import asyncpg
from sqlalchemy.engine import make_url

from libs.common import migrate
from libs.common.context_server import ContextServer
from libs.common.mounted import Mounted

T = TypeVar("T")

_POLL_SECONDS = 0.02
_SERVICES = Path(__file__).resolve().parents[2] / "services"


@overload
async def eventually(check: Callable[[], Awaitable[T]], timeout_seconds: float = 10.0) -> T: ...


@overload
async def eventually(check: Callable[[], T], timeout_seconds: float = 10.0) -> T: ...


async def eventually(check: Callable[[], Any], timeout_seconds: float = 10.0) -> Any:
    """Call ``check`` until what it returns is true, and return that.

    It may be a coroutine function; an ``AssertionError`` counts as "not yet". Raises ``AssertionError``
    with the last answer when the time is over.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        failure: AssertionError | None = None
        answer: Any = None
        try:
            returned = check()
            answer = await returned if inspect.isawaitable(returned) else returned
        except AssertionError as error:
            failure = error
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_seconds} s; last: {failure or answer!r}") from failure
        await asyncio.sleep(_POLL_SECONDS)


@asynccontextmanager
async def serving(name: str, mounted: Mounted) -> AsyncIterator[str]:
    """Run a context's real server on a free port of the loopback; yield ``127.0.0.1:port``."""
    server = ContextServer(name, "127.0.0.1:0", mounted)
    address = await server.start()
    try:
        yield address
    finally:
        await server.stop(grace_seconds=1.0)


def contexts() -> tuple[str, ...]:
    """Return the names of all contexts, with or without migrations."""
    return tuple(sorted(init.parent.name for init in _SERVICES.glob("*/__init__.py")))


@dataclass(frozen=True)
class Template:
    """The migrated database that each test module gets a copy of."""

    name: str
    failures: Mapping[str, str]
    """Why a context's migrations are not in it, by context; empty when all are."""


class TestCluster:
    """The PostgreSQL of one test run; each worker of the run makes its own object over it."""

    __test__ = False

    def __init__(self, admin_url: str, run_id: str) -> None:
        """Use the server of ``admin_url``, whose role may create databases; ``run_id`` names this run's."""
        self._admin_url = make_url(admin_url).set(drivername="postgresql")
        self._run_id = run_id
        self._template_name = f"frontrow_template_{run_id}"

    def url(self, database: str) -> str:
        """Return the URL of one of the server's databases."""
        return self._admin_url.set(database=database).render_as_string(hide_password=False)

    async def template(self) -> Template:
        """Make the run's template, or wait for the worker that makes it and take that."""
        async with self._admin() as admin:
            await admin.execute("SELECT pg_advisory_lock($1)", zlib.crc32(self._run_id.encode()))
            comment = await admin.fetchval(
                "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = $1",
                self._template_name,
            )
            if comment is None:
                comment = json.dumps(await self._build(admin))
                # written last: a template without it was left half made
                literal = await admin.fetchval("SELECT quote_literal($1)", comment)
                await admin.execute(f'COMMENT ON DATABASE "{self._template_name}" IS {literal}')
            return Template(self._template_name, json.loads(comment))

    async def _build(self, admin: "asyncpg.Connection[asyncpg.Record]") -> dict[str, str]:
        await admin.execute(f'DROP DATABASE IF EXISTS "{self._template_name}" WITH (FORCE)')
        await admin.execute(f'CREATE DATABASE "{self._template_name}"')
        url = self.url(self._template_name)
        failures: dict[str, str] = {}
        for ctx in contexts():
            try:
                await migrate.upgrade(url, ctx)
            except Exception as error:  # noqa: BLE001 - kept, and shown by each test that needs this context
                failures[ctx] = f"{type(error).__name__}: {error}"
                connection = await asyncpg.connect(url)
                await connection.execute(f'DROP SCHEMA IF EXISTS "{ctx}" CASCADE')
                await connection.close()
        return failures

    @asynccontextmanager
    async def database(self, template: Template | None) -> AsyncIterator[str]:
        """Yield the URL of a fresh copy of ``template`` (None: an empty database); drop it at the end."""
        name = f"frontrow_{self._run_id}_{uuid4().hex[:12]}"
        async with self._admin() as admin:
            source = f' TEMPLATE "{template.name}"' if template else ""
            await admin.execute(f'CREATE DATABASE "{name}"{source}')
        try:
            yield self.url(name)
        finally:
            async with self._admin() as admin:
                await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    async def drop_template(self) -> None:
        """Remove the run's template; for a server that outlives the run."""
        async with self._admin() as admin:
            await admin.execute(f'DROP DATABASE IF EXISTS "{self._template_name}" WITH (FORCE)')

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        connection = await asyncpg.connect(self._admin_url.render_as_string(hide_password=False))
        try:
            yield connection
        finally:
            await connection.close()
