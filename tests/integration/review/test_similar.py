"""Near-duplicates are suggested until an editor says they aren't."""

from __future__ import annotations

import grpc
import pytest
from frontrow.review.v1 import intake_service_pb2 as intake
from frontrow.review.v1 import media_service_pb2 as pb
from frontrow.review.v1 import media_service_pb2_grpc

from libs.common.client import reason_of
from tests.integration.review.gallery import Gallery, acting, item_of, unique


async def announced(gallery: Gallery, dhash: str) -> str:
    """Announce and confirm an object with a difference hash; return its key."""
    item = item_of(unique("similar").encode(), dhash=dhash)
    for _ in range(2):  # a repeat keeps one set of parts
        await gallery.intake.ReserveMedia(intake.ReserveMediaRequest(job_id="job", items=[item]))
    await gallery.intake.ConfirmMedia(intake.ConfirmMediaRequest(job_id="job", keys=[item.key]))
    return item.key


async def test_near_images_are_found_nearest_first_and_dismissed_for_good(gallery: Gallery) -> None:
    operator = media_service_pb2_grpc.MediaServiceStub(gallery.channel)

    async def similar(key: str, max_distance: int = 0) -> list[tuple[str, int]]:
        request = pb.FindSimilarRequest(media_key=key, max_distance=max_distance)
        return [(near.key, near.distance) for near in (await operator.FindSimilar(request)).similar]

    base = 0xF0E1D2C3B4A59687
    key = await announced(gallery, f"{base:016x}")
    six = await announced(gallery, f"{base ^ 0x8001800180010000:016x}")
    two = await announced(gallery, f"{base ^ 0x3:016x}")
    await announced(gallery, f"{base ^ 0x8001800180018000:016x}")
    await announced(gallery, f"{base ^ ((1 << 64) - 1):016x}")
    assert await similar(key) == [(two, 2), (six, 6)]
    assert await similar(key, 5) == [(two, 2)]
    request = pb.DismissSimilarRequest(media_key=two, other_key=key)
    for _ in range(2):
        await operator.DismissSimilar(request, metadata=acting("Anna"))
    assert await similar(key) == [(six, 6)]
    assert key not in dict(await similar(two))
    unhashed = (await gallery.store(unique("plain")))[0]
    assert await similar(unhashed) == []


async def test_unknown_images_and_an_image_and_itself_are_refused(gallery: Gallery) -> None:
    operator = media_service_pb2_grpc.MediaServiceStub(gallery.channel)
    key = await announced(gallery, "0123456789abcdef")
    for call, reason in (
        (operator.FindSimilar(pb.FindSimilarRequest(media_key="media/no")), "MEDIA_NOT_FOUND"),
        (operator.DismissSimilar(pb.DismissSimilarRequest(media_key=key, other_key="no")), "MEDIA_NOT_FOUND"),
        (operator.DismissSimilar(pb.DismissSimilarRequest(media_key=key, other_key=key)), "INVALID_ARGUMENT"),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call
        assert reason_of(refused.value) == reason
