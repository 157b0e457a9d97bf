"""A confirmation is for what was announced, not for what somebody announced since (domain.md 4.9)."""

from __future__ import annotations

from datetime import timedelta

import grpc
import pytest
from frontrow.review.v1 import intake_service_pb2 as pb
from frontrow.review.v1 import media_pb2
from sqlalchemy import text

from libs.common.client import error_info, reason_of
from libs.common.db import Database
from libs.common.objects import ObjectStore
from libs.common.testing import eventually
from services.review import repository_media
from services.review.cleanup import CleanUpLimits, MediaCare
from services.review.convert_media import new_media
from tests.integration.review.gallery import Gallery, item_of, unique


@pytest.fixture
def hasty(database: Database, store: ObjectStore) -> MediaCare:
    return MediaCare(database, store, CleanUpLimits(timedelta(0), share=1, plausible=1000))


async def announce(gallery: Gallery, item: media_pb2.MediaItem) -> media_pb2.MediaItemState:
    """Announce one object; return where it stands."""
    reply = await gallery.intake.ReserveMedia(pb.ReserveMediaRequest(job_id="job", items=[item]))
    return reply.items[0]


async def confirm(gallery: Gallery, state: media_pb2.MediaItemState) -> None:
    """Confirm what was announced."""
    await gallery.intake.ConfirmMedia(
        pb.ConfirmMediaRequest(job_id="job", keys=[state.key], reservations=[state.reservation])
    )


async def test_an_upload_that_slept_through_a_clean_up_does_not_confirm_the_next_ones_announcement(
    gallery: Gallery, store: ObjectStore, hasty: MediaCare
) -> None:
    data = unique("slept").encode()
    item = item_of(data)
    sleeper = await announce(gallery, item)
    await store.put_bytes(item.key, data)
    for _ in range(2):  # it marks, then deletes
        await hasty.clean_up(actor="ops", apply=True)
    assert await store.head(item.key) is None
    quick = await announce(gallery, item)
    assert quick.state == media_pb2.MEDIA_STATE_RESERVED
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await confirm(gallery, sleeper)
    assert (refused.value.code(), reason_of(refused.value)) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "MEDIA_NOT_RESERVED",
    )
    assert error_info(refused.value).metadata == {"key": item.key}
    assert (await announce(gallery, item)).state == media_pb2.MEDIA_STATE_RESERVED
    await store.put_bytes(item.key, data)
    await confirm(gallery, quick)
    assert (await announce(gallery, item)).state == media_pb2.MEDIA_STATE_LIVE


async def test_jobs_with_the_same_bytes_share_one_announcement_and_each_may_confirm_it(
    gallery: Gallery,
) -> None:
    item = item_of(unique("shared").encode())
    states = [await announce(gallery, item) for _ in range(2)]
    assert states[0] == states[1]
    for state in states:
        await confirm(gallery, state)


async def test_reservations_are_as_many_as_keys_and_ours(gallery: Gallery) -> None:
    state = await announce(gallery, item_of(unique("counted").encode()))
    for wrong in ([state.reservation] * 2, ["x"], ["9" * 30]):
        request = pb.ConfirmMediaRequest(job_id="job", keys=[state.key], reservations=wrong)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await gallery.intake.ConfirmMedia(request)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert error_info(refused.value).violations[0].field == "reservations"


async def test_an_announcement_and_a_confirmation_of_the_same_images_never_wait_for_each_other(
    gallery: Gallery, database: Database
) -> None:
    original = item_of(unique("ordered").encode())
    thumbnail = item_of(unique("small").encode(), parent_key=original.key)
    # by its key alone it comes before the other
    thumbnail.key = f"media/00/{'0' * 40}_{unique('first')}.webp"
    items = [original, thumbnail]
    await gallery.intake.ReserveMedia(pb.ReserveMediaRequest(job_id="job", items=items))
    new = [new_media(item) for item in items]
    async with database.begin() as session:
        await repository_media.reserve(session, "job", new[:1])
        confirming = gallery.intake.ConfirmMedia(
            pb.ConfirmMediaRequest(job_id="job", keys=[item.key for item in items])
        )

        async def waits() -> bool:
            async with database.begin() as other:
                return bool((await other.execute(text(_WAITING))).scalar_one())

        await eventually(waits)
        await repository_media.reserve(session, "job", new)  # a deadlock if the other held the thumbnail
    await confirming
    states = await gallery.intake.ReserveMedia(pb.ReserveMediaRequest(job_id="job", items=items))
    assert {item.state for item in states.items} == {media_pb2.MEDIA_STATE_LIVE}


_WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
