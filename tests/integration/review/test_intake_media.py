"""Intake of media: announced, confirmed, and only then part of a draft (domain.md 4.9)."""

from __future__ import annotations

import grpc
import pytest
from frontrow.review.v1 import intake_service_pb2 as pb
from frontrow.review.v1 import media_pb2

from libs.common.client import error_info, reason_of
from libs.common.db import Database
from tests.integration.review.gallery import STREET, Gallery, item_of, outcomes, unique


async def reserve(gallery: Gallery, *items: media_pb2.MediaItem) -> list[int]:
    """Announce objects; return their states."""
    reply = await gallery.intake.ReserveMedia(pb.ReserveMediaRequest(job_id="job", items=items))
    return [item.state for item in reply.items]


async def test_a_draft_is_refused_while_one_of_its_images_is_not_live(gallery: Gallery) -> None:
    live, reserved = item_of(unique("live").encode()), item_of(unique("reserved").encode())
    assert await reserve(gallery, live, reserved) == [media_pb2.MEDIA_STATE_RESERVED] * 2
    await gallery.intake.ConfirmMedia(pb.ConfirmMediaRequest(job_id="job", keys=[live.key]))
    assert await reserve(gallery, live, reserved) == [
        media_pb2.MEDIA_STATE_LIVE,
        media_pb2.MEDIA_STATE_RESERVED,
    ]
    request = await gallery.street_request(unique("NotLive"), 2026, 2, [])
    request.images.add(media_key=live.key)
    request.images.add(media_key=reserved.key)
    for key, state in ((reserved.key, "reserved"), ("media/00/unknown.jpg", "unknown")):
        request.images[1].media_key = key
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await gallery.intake.CreateStreetSnapDraft(request)
        assert (refused.value.code(), reason_of(refused.value)) == (
            grpc.StatusCode.FAILED_PRECONDITION,
            "MEDIA_NOT_LIVE",
        )
        assert error_info(refused.value).metadata == {"key": key, "state": state}
    source = await gallery.intake.CheckSource(
        pb.CheckSourceRequest(
            job_id="asks", kind=STREET, source=request.source, source_url=request.source_url
        )
    )
    assert source.verdict == pb.INTAKE_VERDICT_FREE


async def test_the_same_key_with_other_bytes_is_never_overwritten(gallery: Gallery) -> None:
    item = item_of(unique("first").encode())
    await reserve(gallery, item)
    forged = media_pb2.MediaItem()
    forged.CopyFrom(item)
    forged.sha256 = "0" * 64
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await reserve(gallery, item_of(unique("innocent").encode()), forged)
    assert reason_of(refused.value) == "CONTENT_MISMATCH"
    assert error_info(refused.value).metadata["key"] == item.key


async def test_what_was_never_announced_can_not_be_confirmed(gallery: Gallery) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await gallery.intake.ConfirmMedia(pb.ConfirmMediaRequest(job_id="job", keys=["media/00/never.jpg"]))
    assert reason_of(refused.value) == "MEDIA_NOT_RESERVED"


async def test_thumbnails_go_with_their_original_and_may_be_encoded_anew(gallery: Gallery) -> None:
    original = item_of(unique("thumbed").encode())
    small = item_of(unique("small").encode(), parent_key=original.key, width=320, height=480)
    with pytest.raises(grpc.aio.AioRpcError) as orphan:
        await reserve(gallery, small)
    assert reason_of(orphan.value) == "PARENT_NOT_FOUND"
    assert await reserve(gallery, small, original) == [media_pb2.MEDIA_STATE_RESERVED] * 2
    small.sha256, small.size_bytes = "1" * 64, 99
    assert await reserve(gallery, small) == [media_pb2.MEDIA_STATE_RESERVED]
    await gallery.intake.ConfirmMedia(pb.ConfirmMediaRequest(job_id="job", keys=[small.key, original.key]))
    small.sha256 = "2" * 64
    assert await reserve(gallery, small) == [media_pb2.MEDIA_STATE_LIVE]
    request = await gallery.street_request(unique("Thumb"), 2026, 2, [])
    request.images.add(media_key=small.key)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await gallery.intake.CreateStreetSnapDraft(request)
    assert error_info(refused.value).metadata["state"] == "thumbnail"


async def test_many_jobs_announce_the_same_objects_in_any_order_without_a_deadlock(gallery: Gallery) -> None:
    items = [item_of(unique("shared").encode()) for _ in range(12)]
    calls = [reserve(gallery, *(items[i:] + items[:i])) for i in range(12)]
    assert not [reply for reply in await outcomes(*calls) if isinstance(reply, BaseException)]
    confirms = [
        gallery.intake.ConfirmMedia(
            pb.ConfirmMediaRequest(job_id="job", keys=[i.key for i in items[n:] + items[:n]])
        )
        for n in range(12)
    ]
    assert not [reply for reply in await outcomes(*confirms) if isinstance(reply, BaseException)]


async def test_drafts_made_beside_approvals_of_the_same_images_in_another_order_never_deadlock(
    gallery: Gallery,
) -> None:
    names = [unique("both") for _ in range(40)]
    by_key = sorted(names, key=lambda name: item_of(name.encode()).key)
    cities = [unique("Both") for _ in range(12)]
    waiting = [await gallery.street(city, 2026, 2, by_key[::-1]) for city in cities]
    requests = [await gallery.street_request(city, 2026, 3, by_key) for city in cities]
    creations = [gallery.intake.CreateStreetSnapDraft(request) for request in requests]
    approvals = [gallery.approve(draft) for draft in waiting]
    replies = await outcomes(*(call for pair in zip(creations, approvals, strict=True) for call in pair))
    assert [reply for reply in replies if isinstance(reply, BaseException)] == []


async def test_a_row_that_the_clean_up_is_deleting_is_refused_for_the_moment(
    gallery: Gallery, database: Database
) -> None:
    item = item_of(unique("going").encode())
    await reserve(gallery, item)
    async with database.begin() as session:
        connection = await session.connection()
        await connection.exec_driver_sql(
            "UPDATE review.media SET state = 'deleting' WHERE key = $1", (item.key,)
        )
    confirm = gallery.intake.ConfirmMedia(pb.ConfirmMediaRequest(job_id="job", keys=[item.key]))
    for reply in await outcomes(reserve(gallery, item), confirm):
        assert (reply.code(), reason_of(reply)) == (grpc.StatusCode.UNAVAILABLE, "MEDIA_BEING_DELETED")
