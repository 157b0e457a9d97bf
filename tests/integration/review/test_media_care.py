"""Clean-up: what is referred to stays, what isn't goes after two graces, and nothing races it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import grpc
import pytest
from sqlalchemy import func, select, update

from libs.common.client import error_info, reason_of
from libs.common.db import Database
from libs.common.objects import ObjectStore, StoreUnavailable
from services.review import errors
from services.review.cleanup import CleanUpLimits, MediaCare
from services.review.models_audit import audit_log
from services.review.models_media import media
from tests.integration.review.gallery import Gallery, stored, unique

HOUR = timedelta(hours=1)
GRACE = timedelta(hours=24)


@pytest.fixture
def care(database: Database, store: ObjectStore) -> MediaCare:
    return MediaCare(database, store, CleanUpLimits(GRACE, share=0.2, plausible=1000))


async def pass_time(database: Database, by: timedelta) -> None:
    """Make every row as old as if that time had passed."""
    async with database.begin() as session:
        await session.execute(
            update(media).values(touched_at=media.c.touched_at - by, marked_at=media.c.marked_at - by)
        )


async def states(database: Database, *keys: str) -> list[str | None]:
    """Return each key's state, with `*` when it is marked; None without a row."""
    async with database.begin() as session:
        rows = await session.execute(select(media).where(media.c.key.in_(keys)))
        found = {row.key: row.state + ("*" if row.marked_at else "") for row in rows}
    return [found.get(key) for key in keys]


async def clean(care: MediaCare) -> None:
    await care.clean_up(actor="ops", apply=True)


async def test_an_orphan_goes_after_two_graces_with_its_thumbnails_and_a_report_writes_nothing(
    gallery: Gallery, database: Database, store: ObjectStore, care: MediaCare
) -> None:
    orphan = await stored(gallery, store, unique("orphan"))
    thumbnail = await stored(gallery, store, unique("thumb"), parent_key=orphan)
    await clean(care)
    assert await states(database, orphan, thumbnail) == ["live", "live"]
    await pass_time(database, GRACE + HOUR)
    report = await care.clean_up(actor="", apply=False)
    assert report.marked_count >= 1
    assert await states(database, orphan) == ["live"]
    await clean(care)
    assert await states(database, orphan, thumbnail) == ["live*", "live"]
    await pass_time(database, GRACE - HOUR)
    await clean(care)
    assert await states(database, orphan) == ["live*"]
    await pass_time(database, 2 * HOUR)
    assert orphan in (await care.clean_up(actor="", apply=False)).deleted_keys
    assert await states(database, orphan) == ["live*"]
    result = await care.clean_up(actor="ops", apply=True)
    assert {orphan, thumbnail} <= set(result.deleted_keys)
    assert await states(database, orphan, thumbnail) == [None, None]
    assert await store.head(orphan) is None
    assert await store.head(thumbnail) is None
    async with database.begin() as session:
        row = (await session.execute(select(audit_log).order_by(audit_log.c.id.desc()).limit(1))).one()
    assert (row.action, row.actor) == ("media.cleaned_up", "ops")
    assert orphan in row.details["deleted_keys"]


async def test_what_a_draft_or_an_album_shows_stays_even_when_the_draft_is_deleted(
    gallery: Gallery, database: Database, store: ObjectStore, care: MediaCare
) -> None:
    names = [unique("kept") for _ in range(3)]
    keys = [await stored(gallery, store, name) for name in names]
    approved, deleted, rejected = [await gallery.street(unique("Kept"), 2026, 2, [name]) for name in names]
    await gallery.approve(approved)
    await gallery.delete(deleted)
    await gallery.reject(rejected)
    for _ in range(3):
        await pass_time(database, 2 * GRACE)
        await clean(care)
    assert await states(database, *keys) == ["live"] * 3
    assert all([await store.head(key) for key in keys])


async def test_a_purge_leaves_images_to_the_clean_up(
    gallery: Gallery, database: Database, store: ObjectStore, care: MediaCare
) -> None:
    name = unique("purged")
    key = await stored(gallery, store, name)
    draft = await gallery.street(unique("Purge"), 2026, 2, [name])
    await gallery.approve(draft)
    await gallery.purge(draft)
    assert await store.head(key)
    for _ in range(2):
        await pass_time(database, 2 * GRACE)
        await clean(care)
    assert await states(database, key) == [None]


async def test_a_marked_image_that_a_draft_takes_is_kept(
    gallery: Gallery, database: Database, store: ObjectStore, care: MediaCare
) -> None:
    taken, announced = unique("taken"), unique("announced")
    keys = [await stored(gallery, store, name) for name in (taken, announced)]
    await pass_time(database, 2 * GRACE)
    await clean(care)
    assert await states(database, *keys) == ["live*", "live*"]
    await gallery.street(unique("Taken"), 2026, 2, [taken])
    await stored(gallery, store, announced)
    assert await states(database, *keys) == ["live", "live"]
    await pass_time(database, GRACE - HOUR)
    await clean(care)
    assert await states(database, *keys) == ["live", "live"]


async def test_an_approval_whose_images_are_marked_for_deletion_keeps_them(
    gallery: Gallery, database: Database, store: ObjectStore, care: MediaCare
) -> None:
    """A mark may be older than the draft; a reference counts whenever it came."""
    names = [unique("marked") for _ in range(3)]
    keys = [await stored(gallery, store, name) for name in names]
    draft = await gallery.street(unique("Marked"), 2026, 2, names)
    async with database.begin() as session:
        await session.execute(
            update(media)
            .where(media.c.key.in_(keys))
            .values(marked_at=func.now() - 2 * GRACE, touched_at=func.now() - 3 * GRACE)
        )
    cleaning = asyncio.gather(*(clean(care) for _ in range(3)))
    official = (await gallery.approve(draft)).official_id
    await cleaning
    await clean(care)
    assert await states(database, *keys) == ["live"] * 3
    assert await gallery.album(official) == names
    assert all([await store.head(key) for key in keys])


async def test_a_share_that_is_implausible_is_refused_and_nothing_is_written(
    gallery: Gallery, database: Database, store: ObjectStore, care: MediaCare
) -> None:
    strict = MediaCare(database, store, CleanUpLimits(GRACE, share=0.01, plausible=1))
    keys = [await stored(gallery, store, unique("mass")) for _ in range(8)]
    await pass_time(database, 2 * GRACE)
    await clean(care)
    await pass_time(database, 2 * GRACE)
    with pytest.raises(errors.ImplausibleShare):
        await clean(strict)
    assert await states(database, *keys) == ["live*"] * 8
    await clean(care)
    assert await states(database, *keys) == [None] * 8


async def test_a_thumbnail_that_somebody_holds_keeps_its_original_for_the_next_pass(
    gallery: Gallery, database: Database, store: ObjectStore, care: MediaCare
) -> None:
    """Who holds the thumbnail may want the original next: a clean-up that waited would deadlock with it."""
    original = await stored(gallery, store, unique("original"))
    thumbnail = await stored(gallery, store, unique("held"), parent_key=original)
    free = await stored(gallery, store, unique("free"))
    for _ in range(2):
        await pass_time(database, 2 * GRACE)
        if await states(database, original) == ["live"]:
            await clean(care)
    async with database.begin() as session:
        held = select(media.c.id).where(media.c.key == thumbnail).with_for_update()
        await session.execute(held)
        await asyncio.wait_for(clean(care), 20)
        assert await states(database, original, thumbnail, free) == ["live*", "live", None]
        await asyncio.wait_for(
            session.execute(select(media.c.id).where(media.c.key == original).with_for_update()), 20
        )
    await clean(care)
    assert await states(database, original, thumbnail) == [None, None]


class SweptStore:
    """A store in which an object and its row go away just before it is read, as beside a clean-up."""

    def __init__(self, database: Database, store: ObjectStore) -> None:
        self._database = database
        self._store = store

    async def get_bytes(self, key: str) -> bytes:
        async with self._database.begin() as session:
            await session.execute(media.delete().where(media.c.key == key))
        await self._store.delete(key)
        return await self._store.get_bytes(key)


async def test_what_a_clean_up_removes_beside_a_comparison_is_no_damage(
    gallery: Gallery, database: Database, store: ObjectStore
) -> None:
    key = await stored(gallery, store, unique("swept"))
    async with database.begin() as session:
        media_id = int((await session.execute(select(media.c.id).where(media.c.key == key))).scalar_one())
    swept = MediaCare(database, SweptStore(database, store), CleanUpLimits(GRACE, share=1, plausible=9))  # type: ignore[arg-type]
    assert await swept.verify(media_id - 1, 1) == ([], 1, None)


class BrokenStore:
    """A store whose deletes fail; everything else is the real one's."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def delete(self, key: str) -> None:
        raise StoreUnavailable(key)


async def test_a_clean_up_that_broke_off_is_resumed(
    gallery: Gallery, database: Database, store: ObjectStore, care: MediaCare
) -> None:
    key = await stored(gallery, store, unique("resumed"))
    await pass_time(database, 2 * GRACE)
    await clean(care)
    await pass_time(database, 2 * GRACE)
    broken = MediaCare(database, BrokenStore(store), CleanUpLimits(GRACE, share=1, plausible=9))  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        await clean(broken)
    await clean(care)
    assert await states(database, key) == ["deleting*"]  # the broken call may still be at it
    await pass_time(database, HOUR)
    await clean(care)
    assert await states(database, key) == [None]
    assert await store.head(key) is None


class HeldStore:
    """A store whose deletes wait until they are let go; everything else is the real one's."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.reached, self.let_go = asyncio.Event(), asyncio.Event()

    async def delete(self, key: str) -> None:
        self.reached.set()
        await self.let_go.wait()
        await self._store.delete(key)


async def test_a_slow_clean_up_deletes_nothing_that_was_uploaded_after_a_quicker_one(
    gallery: Gallery, database: Database, store: ObjectStore, care: MediaCare
) -> None:
    name = unique("held")
    key = await stored(gallery, store, name)
    await pass_time(database, 2 * GRACE)
    await clean(care)
    await pass_time(database, 2 * GRACE)
    held = HeldStore(store)
    slow = asyncio.create_task(
        clean(MediaCare(database, held, CleanUpLimits(GRACE, share=1, plausible=1000)))  # type: ignore[arg-type]
    )
    await asyncio.wait_for(held.reached.wait(), 30)
    await clean(care)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stored(gallery, store, name)
    assert reason_of(refused.value) == "MEDIA_BEING_DELETED"
    held.let_go.set()
    await slow
    await stored(gallery, store, name)
    assert await states(database, key) == ["live"]
    assert await store.get_bytes(key) == name.encode()


async def test_a_media_row_that_something_refers_to_can_not_be_deleted(
    gallery: Gallery, database: Database, store: ObjectStore
) -> None:
    name = unique("restricted")
    key = await stored(gallery, store, name)
    await gallery.street(unique("Restricted"), 2026, 2, [name])
    with pytest.raises(Exception, match="foreign key constraint"):
        async with database.begin() as session:
            await session.execute(media.delete().where(media.c.key == key))


async def test_a_thumbnail_is_not_added_to_an_original_that_goes(
    gallery: Gallery, database: Database, store: ObjectStore
) -> None:
    key = await stored(gallery, store, unique("going"))
    async with database.begin() as session:
        await session.execute(update(media).where(media.c.key == key).values(state="deleting"))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stored(gallery, store, unique("late"), parent_key=key)
    assert (refused.value.code(), reason_of(refused.value)) == (
        grpc.StatusCode.UNAVAILABLE,
        "MEDIA_BEING_DELETED",
    )
    assert error_info(refused.value).metadata["key"] == key
