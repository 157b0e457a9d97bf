"""A change is decided by what was seen before the locks; what happened since then is never overwritten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import grpc
import pytest

from libs.common.client import reason_of
from libs.common.lane import Connection
from libs.common.testing import eventually
from services.review import repository_change
from services.review.keys import StreetKey, vocabulary_lock_id
from services.review.models import STREET
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
    """Run the calls in this order, so that all have seen the draft before the first of them has its lock."""
    snap = (await gallery.get(draft)).street_snap
    lock_id = StreetKey(int(snap.city_id), snap.year, snap.month).lock_id
    running = []
    async with other.transaction():
        await other.execute("SELECT pg_advisory_xact_lock($1)", lock_id)
        for call in calls:
            running.append(asyncio.create_task(call))
            await waiting(other, lock_id, len(running))
    return await outcomes(*running)


def reason(reply: Any) -> str:
    """Return why a call was refused, "" when it wasn't."""
    return str(reason_of(reply)) if isinstance(reply, grpc.RpcError) else ""


async def test_a_deletion_that_has_seen_a_draft_pending_leaves_the_rejection_that_was_quicker(
    gallery: Gallery, other: Connection
) -> None:
    draft = await gallery.street(unique("Both"), 2026, 2, ["both"])
    calls = [gallery.reject(draft, reason="blurred"), gallery.delete(draft)]
    rejected, deleted = await held(gallery, other, draft, calls)
    assert (reason(rejected), deleted.deleted, deleted.reject_reason) == ("", True, "blurred")
    assert [event.etag for event in await gallery.history(draft)] == [f"s{draft}-{n}" for n in (1, 2, 3)]


async def test_the_slower_of_approve_and_reject_is_refused(gallery: Gallery, other: Connection) -> None:
    draft = await gallery.street(unique("Slower"), 2026, 2, ["slower"])
    replies = await held(gallery, other, draft, [gallery.approve(draft), gallery.reject(draft)])
    assert [reason(reply) for reply in replies] == ["", "DRAFT_NOT_PENDING"]
    assert len(await gallery.history(draft)) == 2


async def test_an_etag_that_was_right_when_it_was_seen_is_refused_when_it_no_longer_is(
    gallery: Gallery, other: Connection
) -> None:
    draft = await gallery.street(unique("Stale"), 2026, 2, ["stale"])
    etag = (await gallery.get(draft)).etag
    edits = [gallery.edit(draft, etag=etag, title=title) for title in ("One", "Two")]
    replies = await held(gallery, other, draft, edits)
    assert [reason(reply) for reply in replies] == ["", "ETAG_MISMATCH"]
    assert (await gallery.get(draft)).title == "One"


async def test_a_draft_whose_city_is_merged_before_it_has_the_locks_is_promoted_under_the_canonical_one(
    gallery: Gallery, other: Connection
) -> None:
    draft = await gallery.street(unique("Merged"), 2026, 2, ["merged"])
    canonical = await gallery.street(unique("Canonical"), 2026, 2, ["canonical"])
    source, target = [int((await gallery.get(one)).street_snap.city_id) for one in (draft, canonical)]
    lock_id = vocabulary_lock_id("cities", source)
    async with other.transaction():
        await other.execute("SELECT pg_advisory_xact_lock($1)", lock_id)
        running = asyncio.create_task(gallery.approve(draft))
        await waiting(other, lock_id, 1)
        await other.execute(
            "UPDATE review.cities SET canonical_id = $2, root_id = $2 WHERE id = $1", source, target
        )
    official = int((await running).official_id)
    found = await other.fetchval("SELECT city_id FROM review.street_snaps WHERE id = $1", official)
    assert found == target


async def test_of_eight_rejections_of_a_draft_without_a_key_and_so_without_a_lock_one_wins(
    gallery: Gallery,
) -> None:
    draft = await gallery.street("", 2026, 2, ["keyless"])
    replies = await outcomes(*(gallery.reject(draft) for _ in range(8)))
    assert sorted(reason(reply) for reply in replies) == ["", *["DRAFT_NOT_PENDING"] * 7]
    assert len(await gallery.history(draft)) == 2


async def test_a_look_that_had_to_wait_for_the_row_sees_the_images_that_go_with_it(
    gallery: Gallery, other: Connection, database_url: str
) -> None:
    draft = int(await gallery.street(unique("Waited"), 2026, 2, ["waited"]))
    slower = await asyncpg.connect(database_url)
    async with other.transaction():
        await other.execute(f"UPDATE {STREET.drafts} SET revision = revision + 1 WHERE id = $1", draft)
        await other.execute(f"UPDATE {STREET.draft_images} SET hidden = true WHERE draft_id = $1", draft)
        looking = asyncio.create_task(repository_change.look(slower, STREET, draft, locked=True))
        await asyncio.sleep(0.3)
        assert not looking.done()
    seen = await looking
    assert seen is not None
    assert (seen.draft.revision, [image.hidden for image in seen.images]) == (2, [True])
    await slower.close()
