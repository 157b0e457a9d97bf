"""Promotion: one official row a key, the ordered union of its approved drafts."""

from __future__ import annotations

import grpc
import pytest
from frontrow.review.v1 import catalog_service_pb2
from sqlalchemy import select

from libs.common.client import reason_of
from libs.common.db import Database
from services.review.models import draft_events
from tests.integration.review.gallery import RUNWAY as RUNWAY_KIND
from tests.integration.review.gallery import Gallery, edit_message, outcomes, unique


async def test_sixteen_siblings_approved_at_once_make_one_album_with_all_images_in_order(
    gallery: Gallery,
) -> None:
    city = unique("Sixteen")
    names = [[unique("img"), unique("img"), "shared"] for _ in range(16)]
    drafts = [await gallery.street(city, 2026, 2, images) for images in names]
    replies = await outcomes(*(gallery.approve(draft) for draft in reversed(drafts)))
    assert {reply.official_id for reply in replies} == {replies[0].official_id}
    assert sum(reply.published for reply in replies) == 1
    expected = list(dict.fromkeys(name for images in names for name in images))
    assert await gallery.album(replies[0].official_id) == expected


async def test_february_and_august_of_one_city_share_no_image(gallery: Gallery) -> None:
    city = unique("Months")
    february = await gallery.street(city, 2026, 2, ["feb1", "feb2"])
    august = await gallery.street(city, 2026, 8, ["aug1", "aug2"])
    winter, summer = await gallery.approve(february), await gallery.approve(august)
    assert winter.official_id != summer.official_id
    assert await gallery.album(winter.official_id) == ["feb1", "feb2"]
    assert await gallery.album(summer.official_id) == ["aug1", "aug2"]


async def test_a_later_approval_is_merged_into_the_same_row(gallery: Gallery) -> None:
    city = unique("Late")
    first = await gallery.street(city, 2026, 2, ["late1", "late2"], title="First")
    second = await gallery.street(city, 2026, 2, ["late2", "late3"], title="Second")
    early = await gallery.approve(second)
    late = await gallery.approve(first)
    assert late.official_id == early.official_id
    assert not late.published
    assert await gallery.album(late.official_id) == ["late1", "late2", "late3"]
    request = catalog_service_pb2.GetStreetSnapRequest(street_snap_id=late.official_id)
    album = (await gallery.catalog.GetStreetSnap(request)).street_snap
    assert album.title == "First"
    assert album.cover_key == album.images[0].media_key


async def test_two_sources_of_one_show_make_one_runway_whatever_they_call_its_season(
    gallery: Gallery,
) -> None:
    vogue = await gallery.runway("Chanel", "Fall 2026 Ready-to-Wear", "", ["look1", "look2"])
    impression = await gallery.runway("香奈儿", "AW26", "Ready to Wear", ["look2", "look3"])
    couture = await gallery.runway("CHANEL", "Fall 2026 Couture", "", ["couture1"])
    one = await gallery.approve(vogue, RUNWAY_KIND)
    two = await gallery.approve(impression, RUNWAY_KIND)
    other = await gallery.approve(couture, RUNWAY_KIND)
    assert one.official_id == two.official_id != other.official_id
    assert await gallery.show(one.official_id) == ["look1", "look2", "look3"]
    assert await gallery.show(other.official_id) == ["couture1"]


async def test_pending_rejected_and_deleted_siblings_never_leak_in(gallery: Gallery) -> None:
    city = unique("Leak")
    approved = await gallery.street(city, 2026, 3, ["shown"])
    await gallery.street(city, 2026, 3, ["pending"])
    rejected = await gallery.street(city, 2026, 3, ["rejected"])
    deleted = await gallery.street(city, 2026, 3, ["deleted"])
    await gallery.reject(rejected, reason="blurred")
    await gallery.approve(deleted)
    await gallery.delete(deleted)
    official = (await gallery.approve(approved)).official_id
    assert await gallery.album(official) == ["shown"]
    await gallery.undelete(deleted)
    assert await gallery.album(official) == ["shown", "deleted"]


async def test_an_album_without_approved_drafts_is_hidden_and_keeps_its_id(gallery: Gallery) -> None:
    draft = await gallery.street(unique("Hidden"), 2026, 4, ["hide1"])
    official = (await gallery.approve(draft)).official_id
    await gallery.reopen(draft)
    with pytest.raises(grpc.aio.AioRpcError) as gone:
        await gallery.album(official)
    assert reason_of(gone.value) == "STREET_SNAP_NOT_FOUND"
    again = await gallery.approve(draft)
    assert again.official_id == official
    assert again.published
    assert await gallery.album(official) == ["hide1"]


async def test_an_edit_of_month_two_to_eight_recomputes_both_albums(gallery: Gallery) -> None:
    city = unique("Moved")
    stays = await gallery.street(city, 2026, 2, ["stays"])
    moves = await gallery.street(city, 2026, 2, ["moves"])
    february = (await gallery.approve(stays)).official_id
    await gallery.approve(moves)
    assert await gallery.album(february) == ["stays", "moves"]
    await gallery.edit(moves, month=8)
    august = (await gallery.get(moves)).official_id
    assert august != february
    assert await gallery.album(february) == ["stays"]
    assert await gallery.album(august) == ["moves"]


async def test_edits_between_two_keys_in_both_directions_at_once_never_deadlock(gallery: Gallery) -> None:
    city = unique("Cross")
    drafts = [await gallery.street(city, 2026, 1 + i % 2, [unique("cross")]) for i in range(8)]
    for draft in drafts:
        await gallery.approve(draft)
    for _ in range(3):
        months = [(await gallery.get(draft)).street_snap.month for draft in drafts]
        moves = zip(drafts, months, strict=True)
        replies = await outcomes(*(gallery.edit(draft, month=3 - month) for draft, month in moves))
        assert not [reply for reply in replies if isinstance(reply, BaseException)]
    by_month = {
        month: [d for d in drafts if (await gallery.get(d)).street_snap.month == month] for month in (1, 2)
    }
    for members in by_month.values():
        captions = [image.caption for d in members for image in (await gallery.get(d)).images]
        assert await gallery.album((await gallery.get(members[0])).official_id) == captions


async def test_reopening_beside_approving_loses_nothing(gallery: Gallery) -> None:
    city = unique("Beside")
    leaves = await gallery.street(city, 2026, 5, ["leaves"])
    comes = [await gallery.street(city, 2026, 5, [unique("comes")]) for _ in range(4)]
    official = (await gallery.approve(leaves)).official_id
    replies = await outcomes(gallery.reopen(leaves), *(gallery.approve(draft) for draft in comes))
    assert not [reply for reply in replies if isinstance(reply, BaseException)]
    expected = [image.caption for d in comes for image in (await gallery.get(d)).images]
    assert await gallery.album(official) == expected


async def test_of_a_double_approval_one_wins_and_the_other_is_told_who_did_it(gallery: Gallery) -> None:
    draft = await gallery.street(unique("Double"), 2026, 6, ["double"])
    etag = (await gallery.get(draft)).etag
    replies = await outcomes(*(gallery.approve(draft, etag=etag, actor=f"editor {i}") for i in range(4)))
    lost = [reply for reply in replies if isinstance(reply, grpc.aio.AioRpcError)]
    assert len(lost) == 3
    assert {(error.code(), reason_of(error)) for error in lost} == {
        (grpc.StatusCode.FAILED_PRECONDITION, "DRAFT_NOT_PENDING")
    }
    assert [event.action for event in await gallery.history(draft)] == [1, 3]


async def test_of_an_approval_and_a_rejection_at_once_one_wins(gallery: Gallery) -> None:
    for _ in range(4):
        draft = await gallery.street(unique("Either"), 2026, 6, [unique("either")])
        replies = await outcomes(gallery.approve(draft), gallery.reject(draft))
        lost = [reply for reply in replies if isinstance(reply, grpc.aio.AioRpcError)]
        assert [reason_of(error) for error in lost] == ["DRAFT_NOT_PENDING"]
        seen = await gallery.get(draft)
        assert bool(seen.official_id) == (seen.status == 2)


async def test_of_an_edit_and_an_approval_at_once_one_wins_and_the_page_shows_what_the_draft_says(
    gallery: Gallery,
) -> None:
    for _ in range(6):
        city = unique("Against")
        draft = await gallery.street(city, 2026, 2, [unique("against")])
        etag = (await gallery.get(draft)).etag
        replies = await outcomes(
            gallery.edit(draft, etag=etag, title="Edited", month=8, actor="Anna"),
            gallery.approve(draft, etag=etag, actor="Ben"),
        )
        lost = [reply for reply in replies if isinstance(reply, grpc.aio.AioRpcError)]
        assert [(error.code(), reason_of(error)) for error in lost] == [
            (grpc.StatusCode.ABORTED, "ETAG_MISMATCH")
        ]
        seen = await gallery.get(draft)
        edited = seen.title == "Edited"
        assert (seen.street_snap.month, bool(seen.official_id)) == ((8, False) if edited else (2, True))
        late = await gallery.approve(draft) if edited else await gallery.edit(draft, month=8)
        page = late.official_id
        assert await gallery.album(page) == [image.caption for image in seen.images]


async def test_an_edit_and_an_approval_go_in_one_transaction(gallery: Gallery) -> None:
    draft = await gallery.street("", 0, 0, ["complete"])
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await gallery.approve(draft, edit=edit_message(title="kept out"))
    assert reason_of(refused.value) == "KEY_INCOMPLETE"
    assert (await gallery.get(draft)).title != "kept out"
    city = unique("OneGo")
    reply = await gallery.approve(draft, edit=edit_message(title="New", city=city, year=2026, month=7))
    assert reply.draft.title == "New"
    assert reply.draft.subtitle == f"{city} · 2026-07"
    assert await gallery.album(reply.official_id) == ["complete"]


async def test_hidden_images_stay_out_and_the_order_and_cover_are_the_editors(gallery: Gallery) -> None:
    draft = await gallery.street(unique("Order"), 2026, 9, ["o1", "o2", "o3"])
    official = (await gallery.approve(draft)).official_id
    images = {image.caption: image for image in (await gallery.get(draft)).images}
    images["o2"].hidden = True
    edited = await gallery.edit(draft, images=[images["o3"], images["o2"], images["o1"]])
    assert await gallery.album(official) == ["o3", "o1"]
    assert edited.image_count == 2
    assert edited.cover_key == images["o3"].media_key
    chosen = await gallery.edit(draft, cover_key=images["o1"].media_key)
    assert chosen.cover_key == images["o1"].media_key
    request = catalog_service_pb2.GetStreetSnapRequest(street_snap_id=official)
    assert (await gallery.catalog.GetStreetSnap(request)).street_snap.cover_key == images["o1"].media_key


async def test_a_cover_that_its_own_draft_hides_is_no_cover_though_a_sibling_shows_that_image(
    gallery: Gallery,
) -> None:
    city = unique("Cover")
    first = await gallery.street(city, 2026, 9, ["c1", "c2"])
    second = await gallery.street(city, 2026, 9, ["c2", "c3"])
    official = (await gallery.approve(first)).official_id
    await gallery.approve(second)
    images = {image.caption: image for image in (await gallery.get(first)).images}
    await gallery.edit(first, cover_key=images["c2"].media_key)
    images["c2"].hidden = True
    card = await gallery.edit(first, images=[images["c1"], images["c2"]])
    assert await gallery.album(official) == ["c1", "c2", "c3"]
    request = catalog_service_pb2.GetStreetSnapRequest(street_snap_id=official)
    album = (await gallery.catalog.GetStreetSnap(request)).street_snap
    assert album.cover_key == card.cover_key == images["c1"].media_key


async def test_a_purge_takes_the_images_out_frees_the_source_key_and_is_audited(
    gallery: Gallery, database: Database
) -> None:
    city, url = unique("Purged"), f"https://site.test/{unique('purged')}"
    draft = await gallery.street(city, 2026, 10, ["purge1"], source_url=url)
    other = await gallery.street(city, 2026, 10, ["purge2"])
    official = (await gallery.approve(draft)).official_id
    await gallery.approve(other)
    with pytest.raises(grpc.aio.AioRpcError) as nameless:
        await gallery.purge(draft, actor="")
    assert reason_of(nameless.value) == "ACTOR_REQUIRED"
    await gallery.purge(draft)
    assert await gallery.album(official) == ["purge2"]
    with pytest.raises(grpc.aio.AioRpcError) as gone:
        await gallery.get(draft)
    assert reason_of(gone.value) == "DRAFT_NOT_FOUND"
    assert await gallery.street(city, 2026, 10, ["purge3"], source_url=url)
    async with database.begin() as session:
        here = draft_events.c.kind == "street_snap", draft_events.c.draft_id == int(draft)
        events = await session.execute(select(draft_events).where(*here).order_by(draft_events.c.id))
        purged = events.all()[-1]
    assert (purged.action, purged.actor, purged.reason) == ("purged", "admin", "again")
    lost = {field: before for field, before, _ in purged.changes}
    assert (lost["source"], lost["source_url"], lost["status"]) == ("vogue", url, "approved")


async def test_the_outcome_does_not_depend_on_the_order_of_approvals(gallery: Gallery) -> None:
    outcomes = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        city = unique("AnyOrder")
        drafts = [
            await gallery.street(city, 2026, 2, images)
            for images in (["a", "b"], ["b", "c"], ["c", "a", "d"])
        ]
        replies = [await gallery.approve(drafts[i]) for i in order]
        outcomes.append(await gallery.album(replies[-1].official_id))
    assert outcomes == [["a", "b", "c", "d"]] * 3
