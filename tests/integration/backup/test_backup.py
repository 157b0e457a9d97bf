"""Backups of a place that is at work: whole, consistent, resumable, and honest about what is lost."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic

import pytest

from libs.common.objects.local import LocalStore
from libs.common.testing import Template, TestCluster, eventually
from services import backup
from services.backup import BackupFailed, back_up
from services.backup_manifest import NoBackup
from services.restore import restore
from tests.integration.backup.bed import (
    HookedStore,
    add_image,
    bare_images,
    connected,
    contents,
    place,
    remove_image,
)

GRACE_SECONDS = 3.0
"""How long an image stays at least: longer than a snapshot of so small a database takes."""


@pytest.fixture
async def url(postgres: TestCluster, migrated_template: Template) -> AsyncIterator[str]:
    """A migrated database for each test."""
    assert not migrated_template.failures
    async with postgres.database(migrated_template) as url:
        yield url


@pytest.fixture
async def empty_url(postgres: TestCluster) -> AsyncIterator[str]:
    async with postgres.database(None) as url:
        yield url


async def test_what_is_restored_is_what_was_backed_up_and_its_numbers_go_on(
    url: str, empty_url: str, tmp_path: Path
) -> None:
    store, other = LocalStore(tmp_path / "store"), LocalStore(tmp_path / "other")
    async with connected(url) as connection:
        await add_image(connection, store, b"one")
        await connection.execute("INSERT INTO asr.doomed_objects (key) VALUES ('x/')")
    await store.put_bytes("staging/asr/7/1/001_prepare.json", b"{}")
    await store.put_bytes("recordings/走秀/original", os.urandom(3_000_000))
    folder = tmp_path / "backup"
    manifest = await back_up(place(url, store), folder)
    assert (manifest.objects.count, manifest.lost) == (3, [])
    assert manifest.contexts["asr"].rows["doomed_objects"] == 1
    assert manifest.contexts["review"].rows["brands"] > 100
    assert manifest.created_at.tzinfo is not None

    checked = await asyncio.create_subprocess_exec("sha256sum", "--quiet", "-c", "SHA256SUMS", cwd=folder)
    assert await checked.wait() == 0
    await restore(place(empty_url, other), folder)
    assert await contents(empty_url) == await contents(url)
    keys = [key async for key in store.list()]
    assert [key async for key in other.list()] == keys
    assert [await other.get_bytes(key) for key in keys] == [await store.get_bytes(key) for key in keys]
    async with connected(empty_url) as connection:
        await add_image(connection, other, b"two")


async def test_under_load_every_live_row_of_the_backup_has_its_bytes(
    url: str, empty_url: str, tmp_path: Path
) -> None:
    store, other = LocalStore(tmp_path / "store"), LocalStore(tmp_path / "other")
    ended = asyncio.Event()
    made = removed = 0

    async def work(number: int) -> None:
        nonlocal made, removed
        async with connected(url) as connection:
            kept = []
            while not ended.is_set():
                kept.append((await add_image(connection, store, f"{number}-{made}".encode()), monotonic()))
                made += 1
                if kept[0][1] < monotonic() - GRACE_SECONDS:
                    await remove_image(connection, store, kept.pop(0)[0])
                    removed += 1
                await asyncio.sleep(0.02)

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(work(number))
        await eventually(lambda: removed > 20)
        before = made, removed
        try:
            await back_up(place(url, store), tmp_path / "backup")
        finally:
            ended.set()
    assert made > before[0]
    assert removed > before[1]
    manifest = await restore(place(empty_url, other), tmp_path / "backup")
    assert manifest.lost == []
    assert manifest.contexts["review"].rows["media"] > 20
    assert await bare_images(empty_url, other) == []


async def test_what_a_clean_up_takes_after_its_copy_is_in_the_backup_with_its_bytes(
    url: str, empty_url: str, tmp_path: Path
) -> None:
    store, other = HookedStore(tmp_path / "store"), LocalStore(tmp_path / "other")
    async with connected(url) as connection:
        goes = await add_image(connection, store, b"goes")
        listings = iter(["before the first", "after the first", "before the second"])

        async def clean_up(_: str) -> None:
            if next(listings, "") == "before the second":
                await remove_image(connection, store, goes)

        store.around_list = clean_up
        manifest = await back_up(place(url, store), tmp_path / "backup")
    assert await store.head(goes) is None
    assert (manifest.contexts["review"].rows["media"], manifest.objects.count, manifest.lost) == (1, 1, [])
    await restore(place(empty_url, other), tmp_path / "backup")
    assert await bare_images(empty_url, other) == []


async def test_what_a_clean_up_takes_between_snapshot_and_copy_is_not_in_the_backup(
    url: str, empty_url: str, tmp_path: Path
) -> None:
    store, other = HookedStore(tmp_path / "store"), LocalStore(tmp_path / "other")
    async with connected(url) as connection:
        await add_image(connection, store, b"stays")
        known = [await add_image(connection, store, b"copied before the snapshot")]
        listings = iter(["before the first", "after the first", "before the second"])

        async def work(_: str) -> None:
            match next(listings, ""):
                case "after the first":
                    known.append(await add_image(connection, store, b"not copied before the snapshot"))
                case "before the second":
                    for key in known:
                        await remove_image(connection, store, key)

        store.around_list = work
        manifest = await back_up(place(url, store), tmp_path / "backup")
    assert (manifest.contexts["review"].rows["media"], manifest.objects.count, manifest.lost) == (1, 1, [])
    await restore(place(empty_url, other), tmp_path / "backup")
    assert await bare_images(empty_url, other) == []


async def test_clean_ups_that_never_end_are_told_and_leave_no_backup(url: str, tmp_path: Path) -> None:
    store = HookedStore(tmp_path / "store")
    async with connected(url) as connection:
        await add_image(connection, store, b"stays")
        young: list[str] = []

        async def work(when: str) -> None:
            if when == "after":
                young.append(await add_image(connection, store, f"image {len(young)}".encode()))
            elif young:
                await remove_image(connection, store, young[-1])

        store.around_list = work
        with pytest.raises(BackupFailed, match="clean-up runs; try again"):
            await back_up(place(url, store), tmp_path / "backup")
    assert len(young) == backup.ROUNDS + 1
    assert not (tmp_path / "backup" / "manifest.json").exists()


async def test_an_image_that_the_store_lost_or_spoilt_is_named(url: str, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    async with connected(url) as connection:
        await add_image(connection, store, b"good")
        lost = await add_image(connection, store, b"lost")
        spoilt = await add_image(connection, store, b"once")
    await store.delete(lost)
    await store.put_bytes(spoilt, b"then")
    manifest = await back_up(place(url, store), tmp_path / "backup")
    assert manifest.lost == sorted([lost, spoilt])


async def test_a_recordings_files_are_needed_too(url: str, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    await store.put_bytes("recordings/a/original", b"sound")
    async with connected(url) as connection:
        for name in ("a", "b"):
            await connection.execute(
                "INSERT INTO asr.uploads (id, size_bytes, committed_bytes, sha1, media_key, file_name)"
                " VALUES (gen_random_uuid(), 5, 5, 'x', $1, 'f')",
                f"recordings/{name}/original",
            )
    manifest = await back_up(place(url, store), tmp_path / "backup")
    assert manifest.lost == ["recordings/b/original"]


async def test_a_recordings_file_that_is_made_anew_before_the_snapshot_is_copied_anew(
    url: str, tmp_path: Path
) -> None:
    store = HookedStore(tmp_path / "store")
    await store.put_bytes("recordings/a/canonical.mp4", b"old")
    async with connected(url) as connection:
        await connection.execute(
            "INSERT INTO asr.uploads (id, size_bytes, committed_bytes, sha1, media_key, file_name)"
            " VALUES (gen_random_uuid(), 5, 5, 'x', 'recordings/a/canonical.mp4', 'f')"
        )

    async def make_anew(when: str) -> None:
        if when == "after":
            await store.put_bytes("recordings/a/canonical.mp4", b"newer")

    store.around_list = make_anew
    await back_up(place(url, store), tmp_path / "backup")
    assert (tmp_path / "backup/objects/recordings/a/canonical.mp4").read_bytes() == b"newer"


async def test_another_databases_store_is_refused(url: str, tmp_path: Path) -> None:
    async with connected(url) as connection:
        await add_image(connection, LocalStore(tmp_path / "store"), b"one")
    empty = place(url, LocalStore(tmp_path / "wrong"), str(tmp_path / "wrong"))
    with pytest.raises(BackupFailed, match=r"wrong/ has none of the 1 objects .*FRONTROW_OBJECT_STORE"):
        await back_up(empty, tmp_path / "backup")


async def test_a_backup_that_broke_off_goes_on_where_it_was(url: str, empty_url: str, tmp_path: Path) -> None:
    store, other = HookedStore(tmp_path / "store"), LocalStore(tmp_path / "other")
    async with connected(url) as connection:
        for number in range(30):
            await add_image(connection, store, f"image {number}".encode())
    store.fail_after = 12
    with pytest.raises(ConnectionError):
        await back_up(place(url, store), tmp_path / "backup")
    with pytest.raises(NoBackup, match="never finished"):
        await restore(place(empty_url, other), tmp_path / "backup")
    store.fail_after = None
    store.read.clear()
    await back_up(place(url, store), tmp_path / "backup")
    assert 10 < len(store.read) <= 30 - 12 + 8  # what was on its way when it broke comes again
    await restore(place(empty_url, other), tmp_path / "backup")
    assert await bare_images(empty_url, other) == []


async def test_a_folder_with_something_else_or_with_a_whole_backup_is_left_alone(
    url: str, empty_url: str, tmp_path: Path
) -> None:
    here = place(url, LocalStore(tmp_path / "store"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").touch()
    with pytest.raises(NoBackup, match=r"something else \(letter.txt\)"):
        await back_up(here, tmp_path / "mine")
    await back_up(here, tmp_path / "backup")
    before = (tmp_path / "backup" / "manifest.json").read_bytes()
    with pytest.raises(NoBackup, match="whole backup already"):
        await back_up(here, tmp_path / "backup")
    assert (tmp_path / "backup" / "manifest.json").read_bytes() == before
    with pytest.raises(BackupFailed, match="no tables of Frontrow"):
        await back_up(place(empty_url, LocalStore(tmp_path / "store")), tmp_path / "nothing")


async def test_a_backup_is_its_owners_alone(url: str, tmp_path: Path) -> None:
    await back_up(place(url, LocalStore(tmp_path / "store")), tmp_path / "backup")
    assert (tmp_path / "backup").stat().st_mode & 0o077 == 0
    dumped = (tmp_path / "backup" / "database.dump").read_bytes()
    manifest = (tmp_path / "backup" / "manifest.json").read_text()
    assert hashlib.sha256(dumped).hexdigest() in manifest
