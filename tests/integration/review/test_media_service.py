"""What operators ask of media: a clean-up by name, a comparison of rows and objects."""

from __future__ import annotations

import grpc
import pytest
from frontrow.review.v1 import media_service_pb2 as pb
from frontrow.review.v1 import media_service_pb2_grpc

from libs.common.client import reason_of
from libs.common.objects import ObjectStore
from tests.integration.review.gallery import Gallery, acting, stored, unique


@pytest.fixture
async def operator(gallery: Gallery) -> media_service_pb2_grpc.MediaServiceAsyncStub:
    return media_service_pb2_grpc.MediaServiceStub(gallery.channel)


async def test_operators_clean_up_by_name_and_only_report_by_default(
    gallery: Gallery, store: ObjectStore, operator: media_service_pb2_grpc.MediaServiceAsyncStub
) -> None:
    await stored(gallery, store, unique("cleaned"))
    assert not (await operator.CleanUpMedia(pb.CleanUpMediaRequest())).applied
    with pytest.raises(grpc.aio.AioRpcError) as nameless:
        await operator.CleanUpMedia(pb.CleanUpMediaRequest(apply=True))
    assert reason_of(nameless.value) == "ACTOR_REQUIRED"
    reply = await operator.CleanUpMedia(pb.CleanUpMediaRequest(apply=True), metadata=acting("ops"))
    assert reply.applied
    assert reply.total_count > 0


async def test_a_comparison_finds_every_damaged_object(
    gallery: Gallery, store: ObjectStore, operator: media_service_pb2_grpc.MediaServiceAsyncStub
) -> None:
    names = [unique("verified") for _ in range(4)]
    keys = [await stored(gallery, store, name) for name in names]
    await store.delete(keys[0])
    await store.put_bytes(keys[1], b"short")
    await store.put_bytes(keys[2], bytes(len(names[2])))
    found: dict[str, int] = {}
    request, checked = pb.VerifyMediaRequest(page_size=3), 0
    while True:
        reply = await operator.VerifyMedia(request)
        found |= {item.key: item.damage for item in reply.damaged}
        checked += reply.checked_count
        if not reply.next_page_token:
            break
        request.page_token = reply.next_page_token
    assert {key: found.get(key) for key in keys} == {
        keys[0]: pb.MEDIA_DAMAGE_MISSING,
        keys[1]: pb.MEDIA_DAMAGE_LENGTH,
        keys[2]: pb.MEDIA_DAMAGE_CONTENT,
        keys[3]: None,
    }
    assert checked >= 4
