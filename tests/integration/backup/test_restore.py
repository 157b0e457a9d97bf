"""Restores: into an empty place alone, of whole and undamaged backups alone, resumable; from and into S3."""

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from libs.common import database_dump, database_roles
from libs.common.objects import StoreUnavailable, open_url
from libs.common.objects.local import LocalStore
from libs.common.settings import DatabaseSettings
from libs.common.testing import Template, TestCluster
from services.backup import back_up
from services.backup_manifest import NoBackup
from services.migrate import CONTEXTS
from services.place import Place
from services.restore import NotEmpty, RestoreFailed, restore
from tests.integration.backup.bed import HookedStore, add_image, bare_images, connected, contents, place
from tests.integration.objects.servers import moto_endpoint, store_url

IMAGES = 20


@pytest.fixture(scope="module")
async def whole(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a backup that no test changes."""
    folder = tmp_path_factory.mktemp("whole")
    store = LocalStore(folder / "store")
    async with connected(database_url) as connection:
        for number in range(IMAGES):
            await add_image(connection, store, f"image {number}".encode())
    await back_up(place(database_url, store), folder / "backup")
    return folder / "backup"


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """Give a backup that the test may spoil."""
    return Path(shutil.copytree(whole, tmp_path / "backup"))


@pytest.fixture
async def url(postgres: TestCluster) -> AsyncIterator[str]:
    """Give an empty database for each test."""
    async with postgres.database(None) as url:
        yield url


async def _tables(url: str) -> int:
    async with connected(url) as connection:
        query = "SELECT count(*) FROM pg_tables WHERE schemaname = ANY($1)"
        return int(await connection.fetchval(query, list(CONTEXTS)))


async def test_a_database_that_has_tables_is_left_as_it_is(
    whole: Path, postgres: TestCluster, migrated_template: Template, tmp_path: Path
) -> None:
    store = LocalStore(tmp_path / "store")
    async with postgres.database(migrated_template) as url:
        before = await contents(url)
        with pytest.raises(NotEmpty, match="has tables already"):
            await restore(place(url, store), whole)
        assert await contents(url) == before
    assert [key async for key in store.list()] == []


async def test_a_store_with_objects_of_others_is_left_as_it_is(whole: Path, url: str, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    await store.put_bytes("media/other.jpg", b"other")
    with pytest.raises(NotEmpty, match=r"has objects already \(media/other.jpg\)"):
        await restore(place(url, store), whole)
    assert [key async for key in store.list()] == ["media/other.jpg"]
    assert await _tables(url) == 0


@pytest.mark.parametrize("part", ["database.dump", "SHA256SUMS"])
async def test_a_damaged_file_is_found_before_anything_is_written(
    folder: Path, url: str, tmp_path: Path, part: str
) -> None:
    data = bytearray((folder / part).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / part).write_bytes(data)
    store = LocalStore(tmp_path / "store")
    with pytest.raises(NoBackup, match=f"{part} is missing or damaged"):
        await restore(place(url, store), folder)
    assert [key async for key in store.list()] == []
    assert await _tables(url) == 0


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b"others"), lambda path: path.unlink()])
async def test_a_damaged_object_is_named_and_never_put_into_the_store(
    folder: Path, url: str, tmp_path: Path, spoil
) -> None:
    broken = sorted((folder / "objects" / "media").iterdir())[7]
    spoil(broken)
    store = LocalStore(tmp_path / "store")
    with pytest.raises(NoBackup, match=f"damaged: .*{broken.name}"):
        await restore(place(url, store), folder)
    assert await store.head(f"media/{broken.name}") is None
    assert await _tables(url) == 0


async def test_a_backup_of_a_newer_release_is_refused_with_what_to_do(
    folder: Path, url: str, tmp_path: Path
) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["contexts"]["asr"]["revision"] = "0999"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(NoBackup, match=r"newer Frontrow .*asr is at revision 0999"):
        await restore(place(url, LocalStore(tmp_path / "store")), folder)


async def test_rows_that_are_not_all_there_are_told(folder: Path, url: str, tmp_path: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["contexts"]["review"]["rows"]["media"] += 1
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RestoreFailed, match=f"review.media had {IMAGES + 1} rows and has {IMAGES} now"):
        await restore(place(url, LocalStore(tmp_path / "store")), folder)


async def test_a_restore_that_broke_off_goes_on(whole: Path, url: str, tmp_path: Path) -> None:
    store = HookedStore(tmp_path / "store")
    store.room = 5
    with pytest.raises(StoreUnavailable):
        await restore(place(url, store), whole)
    assert await _tables(url) == 0
    store.room = None
    await restore(place(url, store), whole)
    assert await bare_images(url, store) == []


async def test_a_dump_that_can_not_be_put_back_whole_leaves_nothing(
    whole: Path, url: str, tmp_path: Path
) -> None:
    async with connected(url) as connection:
        await connection.execute("CREATE SCHEMA task; CREATE TYPE task.tasks AS ENUM ('in', 'the', 'way')")
    with pytest.raises(database_dump.DumpFailed, match='"tasks" already exists'):
        await restore(place(url, LocalStore(tmp_path / "store")), whole)
    assert await _tables(url) == 0


async def test_what_is_restored_belongs_to_the_roles_where_there_are_roles(
    whole: Path, url: str, tmp_path: Path
) -> None:
    store = LocalStore(tmp_path / "store")
    await database_roles.apply(url, CONTEXTS)
    with_roles = Place(DatabaseSettings(url=url, roles=True), store, str(tmp_path / "store"))
    await restore(with_roles, whole)
    async with connected(url) as connection:
        owners = await connection.fetch(
            "SELECT DISTINCT schemaname, tableowner FROM pg_tables WHERE schemaname = ANY($1)", list(CONTEXTS)
        )
        assert {tuple(row) for row in owners} == {(name, f"frontrow_{name}") for name in CONTEXTS}
        await connection.execute("SET SESSION AUTHORIZATION frontrow_review")
        assert await connection.fetchval("SELECT count(*) FROM review.media") == IMAGES
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetchval("SELECT count(*) FROM task.tasks")


async def test_from_one_bucket_into_another(database_url: str, whole: Path, url: str, tmp_path: Path) -> None:
    with moto_endpoint() as endpoint:
        one, two = (open_url(store_url(endpoint, name)) for name in ("one", "two"))
        objects = LocalStore(whole / "objects")
        async for key in objects.list():
            await one.put_bytes(key, await objects.get_bytes(key))
        await back_up(place(database_url, one), tmp_path / "from-s3")
        await restore(place(url, two), tmp_path / "from-s3")
        assert await bare_images(url, two) == []
