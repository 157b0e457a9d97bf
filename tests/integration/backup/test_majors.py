"""From one major release of PostgreSQL to another: the oldest here, with the newest one's programs."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from libs.common import postgres as embedded
from libs.common.objects.local import LocalStore
from libs.common.postgres import EmbeddedPostgres
from libs.common.postgres_client import find_client
from libs.common.postgres_place import OLDEST_MAJOR, installed
from libs.common.settings import DatabaseSettings
from libs.common.testing import TestCluster
from services.backup import back_up
from services.migrate import upgrade
from services.restore import restore
from tests.integration.backup.bed import add_image, bare_images, connected, contents, place

_OPTIONS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
SERVERS = sorted((one for one in installed() if one.major >= OLDEST_MAJOR), key=lambda one: one.major)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder that any user can enter (pytest's own tmp_path is closed to PostgreSQL's user)."""
    made = Path(tempfile.mkdtemp(prefix="frontrow-test-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(params=SERVERS[:1], ids=lambda found: str(found.major))
async def old(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[EmbeddedPostgres]:
    """Give a server of the oldest release here."""
    monkeypatch.setattr(embedded, "find_binaries", lambda major: request.param)
    server = EmbeddedPostgres(folder / "postgres", options=_OPTIONS)
    await server.start()
    yield server
    await server.stop()


async def test_a_backup_goes_to_a_newer_server_and_back_into_its_own(
    old: EmbeddedPostgres, postgres: TestCluster, tmp_path: Path
) -> None:
    store, other = LocalStore(tmp_path / "store"), LocalStore(tmp_path / "other")
    url = old.url("frontrow")
    await upgrade(DatabaseSettings(url=url))
    async with connected(url) as connection:
        await add_image(connection, store, b"one")
        await connection.execute("CREATE DATABASE again")
    manifest = await back_up(place(url, store), tmp_path / "backup")
    assert manifest.pg_dump_major == find_client(0, tls=False).major

    async with postgres.database(None) as newer:
        await restore(place(newer, other), tmp_path / "backup")
        assert await contents(newer) == await contents(url)
        assert await bare_images(newer, other) == []
    await restore(place(old.url("again"), LocalStore(tmp_path / "third")), tmp_path / "backup")
    assert await contents(old.url("again")) == await contents(url)
