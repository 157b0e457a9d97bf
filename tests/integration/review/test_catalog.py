"""What the public sees: visible rows, their images, and nothing else."""

from __future__ import annotations

import io
from typing import Any

import grpc
import pytest
from frontrow.review.v1 import catalog_pb2, media_pb2
from frontrow.review.v1 import catalog_service_pb2 as pb
from frontrow.review.v1 import draft_service_pb2 as draft_pb
from frontrow.review.v1 import intake_service_pb2 as intake
from PIL import Image

from libs.common.client import reading, reason_of
from libs.common.objects import ObjectStore
from tests.integration.review.gallery import RUNWAY, Gallery, item_of, unique

PLACE = b"Secret Street 5"


def photograph(color: str, width: int = 120) -> bytes:
    """Return a JPEG that says where it was taken."""
    block, file = Image.Exif(), io.BytesIO()
    block[0x010E] = PLACE.decode()
    Image.new("RGB", (width, 90), color).save(file, "JPEG", exif=block.tobytes())
    return file.getvalue()


async def collected(call: Any) -> tuple[media_pb2.MediaInfo, bytes]:
    """Return the info and the bytes of a media stream."""
    info, data = media_pb2.MediaInfo(), b""
    async with reading(call) as parts:
        async for part in parts:
            if part.HasField("info"):
                info = part.info
            else:
                assert len(part.chunk) <= 256 * 1024
                data += part.chunk
    return info, data


async def stored(gallery: Gallery, store: ObjectStore, data: bytes, **facts: Any) -> str:
    """Put an object as the ingest worker does; return its key."""
    item = item_of(data, **facts)
    await gallery.intake.ReserveMedia(intake.ReserveMediaRequest(job_id="job", items=[item]))
    await store.put_bytes(item.key, data)
    await gallery.intake.ConfirmMedia(intake.ConfirmMediaRequest(job_id="job", keys=[item.key]))
    return item.key


async def album_of(gallery: Gallery, *keys: str, year: int = 2026) -> str:
    """Create a street-snap draft of stored objects; return its id."""
    request = await gallery.street_request(unique("Public"), year, 2, [])
    request.images.extend(intake.IntakeImage(media_key=key) for key in keys)
    return (await gallery.intake.CreateStreetSnapDraft(request)).draft_id


def test_public_albums_have_neither_year_month_city_nor_source() -> None:
    fields = {field.name for field in catalog_pb2.StreetSnap.DESCRIPTOR.fields}
    assert not {
        name for name in fields if any(w in name for w in ("year", "month", "city", "source", "time"))
    }


async def test_only_media_of_visible_rows_is_public_and_it_has_no_exif(
    gallery: Gallery, store: ObjectStore
) -> None:
    original = photograph("teal")
    key = await stored(gallery, store, original)
    draft = await album_of(gallery, key)

    async def published() -> tuple[media_pb2.MediaInfo, bytes]:
        return await collected(gallery.catalog.GetMedia(pb.GetMediaRequest(media_key=key)))

    with pytest.raises(grpc.aio.AioRpcError) as unseen:
        await published()
    assert (unseen.value.code(), reason_of(unseen.value)) == (grpc.StatusCode.NOT_FOUND, "MEDIA_NOT_FOUND")
    await gallery.approve(draft)
    info, data = await published()
    assert PLACE in original
    assert PLACE not in data
    assert (info.content_type, info.size_bytes) == ("image/jpeg", len(data))
    assert (await published())[0].etag == info.etag
    raw = await collected(gallery.drafts.GetDraftMedia(draft_pb.GetDraftMediaRequest(media_key=key)))
    assert raw[1] == original == await store.get_bytes(key)
    await gallery.reopen(draft)
    with pytest.raises(grpc.aio.AioRpcError) as hidden:
        await published()
    assert reason_of(hidden.value) == "MEDIA_NOT_FOUND"


async def test_a_hidden_image_of_a_visible_album_is_not_public(gallery: Gallery, store: ObjectStore) -> None:
    keys = [await stored(gallery, store, photograph(color)) for color in ("red", "blue")]
    draft = await album_of(gallery, *keys)
    await gallery.approve(draft)
    images = (await gallery.get(draft)).images
    images[1].hidden = True
    await gallery.edit(draft, images=images)
    assert (await collected(gallery.catalog.GetMedia(pb.GetMediaRequest(media_key=keys[0]))))[1]
    with pytest.raises(grpc.aio.AioRpcError) as hidden:
        await collected(gallery.catalog.GetMedia(pb.GetMediaRequest(media_key=keys[1])))
    assert reason_of(hidden.value) == "MEDIA_NOT_FOUND"


async def test_the_narrowest_thumbnail_that_is_wide_enough_is_sent(
    gallery: Gallery, store: ObjectStore
) -> None:
    key = await stored(gallery, store, photograph("gold", 1200), width=1200)
    bare = await stored(gallery, store, photograph("silver", 700), width=700)
    small = await stored(gallery, store, photograph("gold", 320), parent_key=key, width=320)
    large = await stored(gallery, store, photograph("gold", 960), parent_key=key, width=960)
    await gallery.approve(await album_of(gallery, key, bare))
    thumbnail = media_pb2.MEDIA_SIZE_THUMBNAIL
    for min_width, expected in ((0, small), (320, small), (321, large), (5000, large)):
        request = pb.GetMediaRequest(media_key=key, size=thumbnail, min_width=min_width)
        info, data = await collected(gallery.catalog.GetMedia(request))
        assert info.key == expected
        assert PLACE not in data
        same = draft_pb.GetDraftMediaRequest(media_key=key, size=thumbnail, min_width=min_width)
        assert (await collected(gallery.drafts.GetDraftMedia(same)))[0].key == expected
    info, _ = await collected(gallery.catalog.GetMedia(pb.GetMediaRequest(media_key=bare, size=thumbnail)))
    assert info.key == bare


async def test_a_lost_or_damaged_object_is_data_loss(gallery: Gallery, store: ObjectStore) -> None:
    key = await stored(gallery, store, photograph("pink"))
    await gallery.approve(await album_of(gallery, key))
    original = await store.get_bytes(key)
    for damage in (original[:-1], None):
        await (store.delete(key) if damage is None else store.put_bytes(key, damage))
        for call in (
            gallery.catalog.GetMedia(pb.GetMediaRequest(media_key=key)),
            gallery.drafts.GetDraftMedia(draft_pb.GetDraftMediaRequest(media_key=key)),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as lost:
                await collected(call)
            assert (lost.value.code(), reason_of(lost.value)) == (grpc.StatusCode.DATA_LOSS, "MEDIA_LOST")


async def test_what_can_not_be_freed_of_metadata_is_not_published(
    gallery: Gallery, store: ObjectStore
) -> None:
    key = await stored(gallery, store, b"no jpeg at all " + PLACE)
    await gallery.approve(await album_of(gallery, key))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await collected(gallery.catalog.GetMedia(pb.GetMediaRequest(media_key=key)))
    assert reason_of(refused.value) == "MEDIA_UNPUBLISHABLE"


async def test_runways_are_listed_by_brand_and_season_and_brands_by_name(gallery: Gallery) -> None:
    shows = []
    for brand, season in (("Loewe", "FW41"), ("Loewe", "SS41"), ("Etro", "FW41")):
        draft = await gallery.runway(brand, season, "", [unique("cat")])
        shows.append((await gallery.approve(draft, RUNWAY)).official_id)

    async def ids(**fields: Any) -> list[str]:
        found: list[str] = []
        request = pb.ListRunwaysRequest(page_size=1, **fields)
        while True:
            reply = await gallery.catalog.ListRunways(request)
            found += [runway.runway_id for runway in reply.runways]
            if not reply.next_page_token:
                return found
            request.page_token = reply.next_page_token

    assert await ids(brand="罗意威") == [shows[1], shows[0]]
    assert await ids(season="Fall 2041") == [shows[2], shows[0]]
    assert await ids(brand="loewe", season="AW41") == [shows[0]]
    for unknown in ({"brand": "Never Heard"}, {"brand": "\u200b"}, {"season": "Never Heard"}):
        assert await ids(**unknown) == []
    assert set(shows) <= set(await ids())
    first = await gallery.catalog.ListBrands(pb.ListBrandsRequest(page_size=1))
    second = await gallery.catalog.ListBrands(
        pb.ListBrandsRequest(page_size=1, page_token=first.next_page_token)
    )
    assert [(b.name, b.runway_count) for b in (*first.brands, *second.brands)] == [("Etro", 1), ("Loewe", 2)]
    runway = (await gallery.catalog.GetRunway(pb.GetRunwayRequest(runway_id=shows[0]))).runway
    assert (runway.brand, runway.season, runway.season_code, runway.collection) == (
        "Loewe",
        "Fall 2041",
        "FW41",
        "Ready-to-Wear",
    )


async def test_albums_are_listed_newest_first(gallery: Gallery) -> None:
    drafts = [await gallery.street(unique("List"), 2026, 2, ["a"]) for _ in range(3)]
    made = [(await gallery.approve(draft)).official_id for draft in drafts]
    reply = await gallery.catalog.ListStreetSnaps(pb.ListStreetSnapsRequest(page_size=3))
    assert [album.street_snap_id for album in reply.street_snaps] == made[::-1]
    assert all(album.image_count == 1 and album.cover_key for album in reply.street_snaps)


async def test_an_album_that_exceeds_a_message_comes_in_parts(gallery: Gallery) -> None:
    names = [unique("many") for _ in range(900)]
    keys = await gallery.store(*names)
    city, official = unique("Large"), ""
    for part in range(3):
        request = await gallery.street_request(city, 2026, 2, [])
        for key in keys[part * 300 : part * 300 + 300]:
            request.images.add(media_key=key, caption="🌊" * 1000, original_url="u" * 2048)
        draft = (await gallery.intake.CreateStreetSnapDraft(request)).draft_id
        images = list((await gallery.get(draft)).images)
        for _ in range(2):
            images.reverse()
            await gallery.edit(draft, images=images)
        assert (await gallery.history(draft))[-1].action == 2
        official = (await gallery.approve(draft)).official_id
    wanted, seen, replies = pb.GetStreetSnapRequest(street_snap_id=official), list[str](), 0
    while True:
        reply = await gallery.catalog.GetStreetSnap(wanted)
        replies += 1
        assert reply.street_snap.image_count == 900
        seen += [image.media_key for image in reply.street_snap.images]
        if not reply.next_images_page_token:
            break
        wanted.images_page_token = reply.next_images_page_token
    assert replies == 2
    assert seen == keys
