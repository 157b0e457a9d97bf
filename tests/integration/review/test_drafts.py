"""The editors' desk: edits, states, history, lists."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from frontrow.review.v1 import draft_pb2
from frontrow.review.v1 import draft_service_pb2 as pb

from libs.common.client import error_info, reason_of
from tests.integration.review.gallery import RUNWAY, STREET, Gallery, edit_message, outcomes, unique

ACTIONS = draft_pb2.DraftAction


async def listed(gallery: Gallery, **fields: Any) -> list[str]:
    """Return the ids of a list, page by page."""
    ids: list[str] = []
    request = pb.ListDraftsRequest(**{"kind": STREET, "page_size": 2, **fields})
    while True:
        reply = await gallery.drafts.ListDrafts(request)
        assert len(reply.drafts) <= 2
        ids += [draft.draft_id for draft in reply.drafts]
        if not reply.next_page_token:
            return ids
        request.page_token = reply.next_page_token


async def test_the_second_of_two_editors_is_told_what_changed_and_by_whom(gallery: Gallery) -> None:
    draft = await gallery.street(unique("Two"), 2026, 2, ["two"])
    etag = (await gallery.get(draft)).etag
    await gallery.edit(draft, etag=etag, title="By Anna", actor="Anna")
    with pytest.raises(grpc.aio.AioRpcError) as late:
        await gallery.edit(draft, etag=etag, month=3, actor="Ben")
    told = error_info(late.value)
    assert (late.value.code(), told.reason) == (grpc.StatusCode.ABORTED, "ETAG_MISMATCH")
    current = await gallery.get(draft)
    assert told.metadata == {
        "changed_fields": "title",
        "changed_by": "Anna",
        "current_etag": current.etag,
        "status": "pending",
    }
    assert (current.title, current.street_snap.month) == ("By Anna", 2)
    with pytest.raises(grpc.aio.AioRpcError) as foreign:
        await gallery.edit(draft, etag="s999999-1", month=3)
    assert reason_of(foreign.value) == "ETAG_MISMATCH"


async def test_of_edits_with_one_etag_at_once_one_wins(gallery: Gallery) -> None:
    draft = await gallery.street(unique("Race"), 2026, 2, ["race"])
    etag = (await gallery.get(draft)).etag
    replies = await outcomes(*(gallery.edit(draft, etag=etag, title=f"title {i}") for i in range(8)))
    lost = [reply for reply in replies if isinstance(reply, grpc.aio.AioRpcError)]
    assert len(lost) == 7
    assert {reason_of(error) for error in lost} == {"ETAG_MISMATCH"}


async def test_an_edit_that_changes_nothing_changes_no_etag(gallery: Gallery) -> None:
    city = unique("Same")
    draft = await gallery.street(city, 2026, 2, ["same1", "same2"])
    before = await gallery.get(draft)
    after = await gallery.edit(
        draft,
        title=before.title,
        city=city,
        year=2026,
        month=2,
        images=before.images,
        cover_key=before.cover_key,
    )
    assert after.etag == before.etag
    assert len(await gallery.history(draft)) == 1


async def test_the_history_tells_who_did_what(gallery: Gallery) -> None:
    draft = await gallery.street(unique("History"), 2026, 2, ["h1", "h2"])
    await gallery.edit(draft, title="Better", month=3, actor="Anna")
    await gallery.reject(draft, reason="no", actor="Ben")
    await gallery.reopen(draft)
    await gallery.delete(draft)
    await gallery.undelete(draft)
    await gallery.approve(draft, actor="Cleo")
    events = await gallery.history(draft)
    assert [event.action for event in events] == [
        ACTIONS.DRAFT_ACTION_CREATED,
        ACTIONS.DRAFT_ACTION_EDITED,
        ACTIONS.DRAFT_ACTION_REJECTED,
        ACTIONS.DRAFT_ACTION_REOPENED,
        ACTIONS.DRAFT_ACTION_DELETED,
        ACTIONS.DRAFT_ACTION_UNDELETED,
        ACTIONS.DRAFT_ACTION_APPROVED,
    ]
    assert [(c.field, c.after) for c in events[1].changes] == [
        ("title", "Better"),
        ("street_snap.month", "3"),
    ]
    assert [event.actor for event in events] == ["ingest", "Anna", "Ben", "", "", "", "Cleo"]
    assert events[2].reason == "no"
    assert events[-1].etag == (await gallery.get(draft)).etag


async def test_each_state_refuses_what_does_not_fit_it(gallery: Gallery) -> None:
    draft = await gallery.street(unique("States"), 2026, 2, ["states"])

    async def reason(call: Any) -> str | None:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        return reason_of(refused.value)

    assert await reason(gallery.reopen(draft)) == "DRAFT_NOT_DECIDED"
    assert await reason(gallery.undelete(draft)) == "DRAFT_NOT_DELETED"
    await gallery.reject(draft)
    assert await reason(gallery.approve(draft)) == "DRAFT_NOT_PENDING"
    assert await reason(gallery.reject(draft)) == "DRAFT_NOT_PENDING"
    assert await reason(gallery.edit(draft, title="x")) == "DRAFT_NOT_EDITABLE"
    assert await reason(gallery.edit(draft, month=4)) == "DRAFT_NOT_EDITABLE"
    await gallery.delete(draft)
    for call in (gallery.reopen, gallery.delete, gallery.reject, gallery.approve):
        assert await reason(call(draft)) == "DRAFT_DELETED"


async def test_an_approved_draft_can_not_lose_a_part_of_its_key(gallery: Gallery) -> None:
    draft = await gallery.street(unique("Keyless"), 2026, 2, ["keyless"])
    official = (await gallery.approve(draft)).official_id
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await gallery.edit(draft, year=0)
    assert error_info(refused.value).reason == "KEY_INCOMPLETE"
    assert error_info(refused.value).metadata["missing"] == "street_snap.year"
    assert await gallery.album(official) == ["keyless"]


async def test_a_mask_with_a_field_that_can_not_be_edited_is_refused(gallery: Gallery) -> None:
    draft = await gallery.get(await gallery.street(unique("Mask"), 2026, 2, ["mask"]))
    for paths in (["source"], ["status"], ["title", "street_snap"], ["runway.brand"], []):
        edit = edit_message(title="x")
        edit.update_mask.paths[:] = paths
        request = pb.UpdateDraftRequest(kind=STREET, draft_id=draft.draft_id, etag=draft.etag, edit=edit)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await gallery.drafts.UpdateDraft(request)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert error_info(refused.value).violations[0].field == "edit.update_mask"
    assert (await gallery.get(draft.draft_id)).etag == draft.etag


async def test_images_are_edited_as_a_whole_and_a_hidden_one_is_no_cover(gallery: Gallery) -> None:
    draft = await gallery.get(await gallery.street(unique("Whole"), 2026, 2, ["w1", "w2"]))
    first, second = draft.images
    for wrong in ([first], [first, first], [first, second, first]):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await gallery.edit(draft.draft_id, images=wrong)
        assert error_info(refused.value).violations[0].field == "edit.draft.images"
    first.hidden = True
    with pytest.raises(grpc.aio.AioRpcError) as hidden:
        await gallery.edit(draft.draft_id, images=[first, second], cover_key=first.media_key)
    assert error_info(hidden.value).violations[0].field == "edit.draft.cover_key"
    second.caption = "renamed"
    edited = await gallery.edit(draft.draft_id, images=[first, second])
    assert [(i.caption, i.hidden) for i in edited.images] == [("w1", True), ("renamed", False)]
    assert edited.cover_key == second.media_key


async def test_an_edit_to_an_unknown_brand_is_refused_and_to_a_known_one_moves_the_show(
    gallery: Gallery,
) -> None:
    draft = await gallery.runway("Prada", "FW33", "", ["brand"])
    before = (await gallery.approve(draft, RUNWAY)).official_id
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await gallery.edit(draft, RUNWAY, brand="Nobody")
    assert reason_of(refused.value) == "UNKNOWN_BRAND"
    edited = await gallery.edit(draft, RUNWAY, brand="古驰", season="2033秋冬高级定制")
    assert edited.subtitle == "Gucci · FW33 · Couture"
    assert await gallery.show(edited.official_id) == ["brand"]
    with pytest.raises(grpc.aio.AioRpcError) as hidden:
        await gallery.show(before)
    assert reason_of(hidden.value) == "RUNWAY_NOT_FOUND"


async def test_lists_filter_and_page_newest_first(gallery: Gallery) -> None:
    city, source = unique("Listed"), unique("src")
    drafts = [
        await gallery.street(city, 2026, 1 + i % 2, [f"l{i}", "l"], source=source.upper()) for i in range(5)
    ]
    await gallery.approve(drafts[1])
    await gallery.reject(drafts[2])
    await gallery.delete(drafts[4])
    newest = drafts[:4][::-1]
    assert await listed(gallery, source=f" {source.upper()}") == newest
    assert await listed(gallery, city=f"{city.lower()} fashion week") == newest
    assert await listed(gallery, city=city, month=1) == [drafts[2], drafts[0]]
    assert await listed(gallery, city=city, year=2025) == []
    assert await listed(gallery, city=city, show_deleted=True) == drafts[::-1]
    approved = draft_pb2.DRAFT_STATUS_APPROVED
    assert await listed(gallery, city=city, statuses=[approved]) == [drafts[1]]
    pending = draft_pb2.DRAFT_STATUS_PENDING
    twice = [approved, pending, approved, pending]
    assert await listed(gallery, city=city, statuses=twice) == [drafts[3], drafts[1], drafts[0]]
    assert await listed(gallery, city=unique("NeverSeen")) == []
    card = (await gallery.drafts.ListDrafts(pb.ListDraftsRequest(kind=STREET, city=city))).drafts[0]
    assert (card.subtitle, card.image_count, card.source) == (f"{city} · 2026-02", 2, source)
    assert card.cover_key
    assert not card.images


async def test_a_page_token_of_other_arguments_and_filters_of_the_other_kind_are_refused(
    gallery: Gallery,
) -> None:
    for _ in range(3):
        await gallery.runway("Fendi", "FW26", "", ["token"])
    page = await gallery.drafts.ListDrafts(pb.ListDraftsRequest(kind=RUNWAY, brand="fendi", page_size=1))
    wrong = (
        pb.ListDraftsRequest(kind=RUNWAY, brand="prada", page_token=page.next_page_token),
        pb.ListDraftsRequest(kind=RUNWAY, page_token="garbage"),
        pb.ListDraftsRequest(kind=RUNWAY, page_size=-1),
        pb.ListDraftsRequest(kind=RUNWAY, city="Paris"),
        pb.ListDraftsRequest(kind=STREET, brand="Prada"),
        pb.ListDraftsRequest(),
    )
    for request in wrong:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await gallery.drafts.ListDrafts(request)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_year_without_a_month_is_the_old_key_and_a_card_shows_what_is_known(gallery: Gallery) -> None:
    city = unique("Old")
    yearly = await gallery.street(city, 2024, 0, ["old"])
    assert (await gallery.get(yearly)).subtitle == f"{city} · 2024"
    assert await gallery.album((await gallery.approve(yearly)).official_id) == ["old"]
    bare = await gallery.street(city, 0, 5, ["bare"])
    assert (await gallery.get(bare)).subtitle == city
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await gallery.approve(bare)
    assert error_info(refused.value).metadata["missing"] == "street_snap.year"
