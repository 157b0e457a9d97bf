"""A server's start beside a database that comes later, or never."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from structlog.testing import capture_logs

from libs.common import migrate
from libs.common.migrate_at_start import upgrade_when_there
from libs.common.settings import DatabaseSettings
from libs.common.testing import TestCluster, eventually
from tests.soak.proxy import Proxy


@pytest.fixture
async def url(postgres: TestCluster) -> AsyncIterator[str]:
    """An empty database for each test."""
    async with postgres.database(None) as url:
        yield url


def _upstream(url: str) -> tuple[str, int] | Path:
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    port = parts.port or int(query.get("port", ["5432"])[0])
    if "host" in query:
        return Path(query["host"][0]) / f".s.PGSQL.{port}"
    return parts.hostname or "127.0.0.1", port


async def test_a_database_that_comes_later_is_waited_for(url: str, tmp_path: Path) -> None:
    parts = urlsplit(url)
    login = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    away = f"postgresql://{login}{parts.path}?host={tmp_path}&port=5432"
    way = Proxy(_upstream(url), path=tmp_path / ".s.PGSQL.5432")
    with capture_logs() as lines:
        starting = asyncio.create_task(upgrade_when_there(DatabaseSettings(url=away), "task"))
        await eventually(lambda: [one["event"] for one in lines].count("server.waits_for_database") >= 2)
        assert not starting.done()
        await way.start()
        try:
            await starting
        finally:
            await way.stop()
    standing = await migrate.status(url, "task")
    assert standing.pending == ()


async def test_a_database_that_there_is_not_is_told_at_once(url: str) -> None:
    wrong = url.replace(urlsplit(url).path, "/no-such-database", 1)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await upgrade_when_there(DatabaseSettings(url=wrong), "task")
