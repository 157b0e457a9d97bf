"""A change is decided by what was seen before the locks; what happened since then is never overwritten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from libs.common.client import reason_of
from libs.common.lane import Connection
from libs.common.testing import eventually
from services.review.keys import StreetKey, vocabulary_lock_id
from tests.integration.review.gallery import Gallery, outcomes, unique


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[Connection]:
    """Give a connection that stands for another server."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def waiting(connection: Connection, lock_id: int, calls: int) -> None:
    """Wait till so many calls wait for the lock: what they do next is decided already."""
    query = """
        SELECT count(*) FROM pg_locks
        WHERE locktype = 'advisory' AND NOT granted AND (classid::bigint << 32 | objid::bigint) = $1
    """

    async def all_there() -> bool:
        return bool(await connection.fetchval(query, lock_id) == calls)

    await eventually(all_there)


async def held(gallery: Gallery, other: Connection, draft: str, calls: list[Any]) -> list[Any]:
    """Run the calls so that all of them have seen the draft before any of them has its lock."""
    snap = (await gallery.get(draft)).street_snap
    lock_id = StreetKey(int(snap.city_id), snap.year, snap.month).lock_id
    async with other.transaction():
        await other.execute("SELECT pg_advisory_xact_lock($1)", lock_id)
        running = asyncio.gather(*map(asyncio.create_task, calls), return_exceptions=True)
        await waiting(other, lock_id, len(calls))
    return list(await running)


async def test_two_edits_that_have_seen_the_same_draft_both_stay(gallery: Gallery, other: Connection) -> None:
    draft = await gallery.street(unique("Both"), 2026, 2, ["both1", "both2"])
    images = list((await gallery.get(draft)).images)
    images[0].hidden = True
    edits = [gallery.edit(draft, etag="", title="New"), gallery.edit(draft, etag="", images=images)]
    replies = await held(gallery, other, draft, edits)
    assert not [reply for reply in replies if isinstance(reply, BaseException)]
    after = await gallery.get(draft)
    assert (after.title, [image.hidden for image in after.images]) == ("New", [True, False])
    assert [event.etag for event in await gallery.history(draft)] == [f"s{draft}-{n}" for n in (1, 2, 3)]


async def test_the_slower_of_approve_and_reject_is_refused(gallery: Gallery, other: Connection) -> None:
    draft = await gallery.street(unique("Slower"), 2026, 2, ["slower"])
    replies = await held(gallery, other, draft, [gallery.approve(draft, etag=""), gallery.reject(draft)])
    [refused] = [reply for reply in replies if isinstance(reply, BaseException)]
    assert reason_of(refused) == "DRAFT_NOT_PENDING"
    assert len(await gallery.history(draft)) == 2


async def test_an_etag_that_was_right_when_it_was_seen_is_refused_when_it_no_longer_is(
    gallery: Gallery, other: Connection
) -> None:
    draft = await gallery.street(unique("Stale"), 2026, 2, ["stale"])
    etag = (await gallery.get(draft)).etag
    edits = [gallery.edit(draft, etag=etag, title=title) for title in ("One", "Two")]
    replies = await held(gallery, other, draft, edits)
    [refused] = [reply for reply in replies if isinstance(reply, BaseException)]
    assert reason_of(refused) == "ETAG_MISMATCH"


async def test_a_draft_whose_city_is_merged_before_it_has_the_locks_is_promoted_under_the_canonical_one(
    gallery: Gallery, other: Connection
) -> None:
    draft = await gallery.street(unique("Merged"), 2026, 2, ["merged"])
    canonical = await gallery.street(unique("Canonical"), 2026, 2, ["canonical"])
    source, target = [int((await gallery.get(one)).street_snap.city_id) for one in (draft, canonical)]
    lock_id = vocabulary_lock_id("cities", source)
    async with other.transaction():
        await other.execute("SELECT pg_advisory_xact_lock($1)", lock_id)
        running = asyncio.create_task(gallery.approve(draft, etag=""))
        await waiting(other, lock_id, 1)
        await other.execute(
            "UPDATE review.cities SET canonical_id = $2, root_id = $2 WHERE id = $1", source, target
        )
    official = int((await running).official_id)
    found = await other.fetchval("SELECT city_id FROM review.street_snaps WHERE id = $1", official)
    assert found == target


async def test_eight_edits_of_a_draft_that_has_no_key_and_so_no_lock_all_stay(gallery: Gallery) -> None:
    draft = await gallery.street("", 2026, 2, ["keyless"])
    replies = await outcomes(*(gallery.edit(draft, etag="", title=f"title {n}") for n in range(8)))
    assert not [reply for reply in replies if isinstance(reply, BaseException)]
    assert len(await gallery.history(draft)) == 9
