"""Fixtures of every test: one PostgreSQL and one migrated template a run, one copy of it a module.

Under pytest-xdist the controller starts PostgreSQL before the first worker and stops it after the last;
the workers share it. ``FRONTROW_TEST_DATABASE_URL`` names a server to use instead (PostgreSQL 15 or later,
a superuser: tests make databases and roles). Nothing is skipped: what is missing fails and says so.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import structlog

from libs.common.db import Database
from libs.common.mounted import Mounted
from libs.common.postgres import EmbeddedPostgres
from libs.common.settings import DatabaseSettings
from libs.common.testing import Template, TestCluster, contexts, serving
from tests.order import longest_first

Serve = Callable[[str, Mounted], Awaitable[str]]

_URL, _RUN_ID, _ERROR = "frontrow_postgres_url", "frontrow_run_id", "frontrow_postgres_error"
# A throw-away cluster need not survive a power cut.
_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "300"}


@dataclass
class _RunPostgres:
    """The server of this run, started in the process that owns the run."""

    run_id: str = field(default_factory=lambda: uuid4().hex[:12])
    url: str = ""
    error: str = ""
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _embedded: EmbeddedPostgres | None = None
    _folder: Path | None = None

    def start(self) -> None:
        self.url = os.environ.get("FRONTROW_TEST_DATABASE_URL", "")
        if self.url:
            return
        self._folder = Path(tempfile.mkdtemp(prefix="frontrow-test-"))
        self._folder.chmod(0o755)  # PostgreSQL runs as another user when we are root
        self._embedded = EmbeddedPostgres(self._folder / "data", options=_FAST)
        try:
            self.url = self._loop.run_until_complete(self._embedded.start())
        except Exception as error:  # noqa: BLE001 - shown by each test that needs a database
            self.error = f"PostgreSQL for the tests did not start: {error}"

    def stop(self) -> None:
        if self._embedded is not None:
            self._loop.run_until_complete(self._embedded.stop())
        elif self.url:
            self._loop.run_until_complete(TestCluster(self.url, self.run_id).drop_template())
        self._loop.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


_RUN_POSTGRES = pytest.StashKey[_RunPostgres]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give each xdist worker the run's server, started before the first of them."""
    run = node.config.stash.get(_RUN_POSTGRES, None)
    if run is None:
        run = node.config.stash[_RUN_POSTGRES] = _RunPostgres()
        run.start()
    node.workerinput.update({_URL: run.url, _RUN_ID: run.run_id, _ERROR: run.error})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the long files first where several workers share the run; each of them must say the same order."""
    if hasattr(config, "workerinput"):
        items[:] = longest_first(items)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server that this process started."""
    run = config.stash.get(_RUN_POSTGRES, None)
    if run is not None:
        run.stop()


@pytest.fixture(scope="session", autouse=True)
def plain_logs() -> None:
    """Write log events as plain lines: structlog's default draws tracebacks, which takes seconds each."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
        ]
    )


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> TestCluster:
    """Give the run's PostgreSQL; started at the first use when this process owns the run."""
    shared: dict[str, str] | None = getattr(request.config, "workerinput", None)
    if shared is None:
        run = request.config.stash.setdefault(_RUN_POSTGRES, _RunPostgres())
        run.start()
        shared = {_URL: run.url, _RUN_ID: run.run_id, _ERROR: run.error}
    if shared[_ERROR]:
        pytest.fail(shared[_ERROR], pytrace=False)
    return TestCluster(shared[_URL], shared[_RUN_ID])


@pytest.fixture(scope="session")
async def migrated_template(postgres: TestCluster) -> Template:
    """Give the database with every context's migrations that run."""
    return await postgres.template()


@pytest.fixture(scope="module")
async def database_url(
    request: pytest.FixtureRequest, postgres: TestCluster, migrated_template: Template
) -> AsyncIterator[str]:
    """Give the URL of a fresh copy of the migrated template, this module's own.

    A module below a context's folder needs that context's migrations, one of ``e2e`` needs all. Broken
    migrations of the others do not keep it from running.
    """
    parts = set(request.path.parts)
    needed = set(contexts()) if "e2e" in parts else parts & set(contexts())
    for ctx, reason in migrated_template.failures.items():
        if ctx in needed:
            pytest.fail(f"the migrations of {ctx} do not run: {reason}", pytrace=False)
        print(f"the migrations of {ctx} do not run: {reason}")
    async with postgres.database(migrated_template) as url:
        yield url


@pytest.fixture(scope="module")
async def empty_database_url(postgres: TestCluster) -> AsyncIterator[str]:
    """Give the URL of a database without any schema of ours, this module's own."""
    async with postgres.database(None) as url:
        yield url


@pytest.fixture(scope="module")
async def database(database_url: str) -> AsyncIterator[Database]:
    """Give an open database over ``database_url``."""
    opened = Database(DatabaseSettings(url=database_url), "frontrow-test")
    yield opened
    await opened.close()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Give ``await serve(name, mounted) -> address``: real servers, stopped when the test ends."""
    async with AsyncExitStack() as stack:
        yield lambda name, mounted: stack.enter_async_context(serving(name, mounted))


@pytest.fixture(scope="module")
async def serve_module(database_url: str) -> AsyncIterator[Serve]:
    """Give the same as ``serve`` for servers of a module; they end before its database does."""
    async with AsyncExitStack() as stack:
        yield lambda name, mounted: stack.enter_async_context(serving(name, mounted))
