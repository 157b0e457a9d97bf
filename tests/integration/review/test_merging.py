"""Merging keys by canonical pointer, reporting first, with an exact undo."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import grpc
import pytest
from frontrow.review.v1 import draft_service_pb2
from frontrow.review.v1 import intake_service_pb2 as intake
from frontrow.review.v1 import key_service_pb2 as pb

from libs.common.client import reason_of
from libs.common.db import Database
from services.review import repository_merge
from services.review.merging import Merger
from services.review.models_audit import audit_log
from tests.integration.review.gallery import RUNWAY, STREET, Gallery, acting, outcomes, unique
from tests.statements import statements

CITY, BRAND, SEASON = pb.KEY_TYPE_CITY, pb.KEY_TYPE_BRAND, pb.KEY_TYPE_SEASON


async def merge(
    gallery: Gallery, key_type: Any, source: str, target: str, *, apply: bool = True, actor: str = "admin"
) -> pb.MergeKeysResponse:
    """Merge two keys, or report what that would concern."""
    request = pb.MergeKeysRequest(key_type=key_type, source_id=source, target_id=target, apply=apply)
    return await gallery.keys.MergeKeys(request, metadata=acting(actor))


async def unmerge(
    gallery: Gallery, key_type: Any, source: str, *, apply: bool = True
) -> pb.UnmergeKeysResponse:
    """Undo a merge, or report what that would concern."""
    request = pb.UnmergeKeysRequest(key_type=key_type, id=source, apply=apply)
    return await gallery.keys.UnmergeKeys(request, metadata=acting("admin"))


async def city_of(gallery: Gallery, draft: str) -> str:
    """Return the id of a draft's own city."""
    return (await gallery.get(draft)).street_snap.city_id


async def hidden(gallery: Gallery, official: str) -> bool:
    """Tell whether an album is not published."""
    try:
        await gallery.album(official)
    except grpc.aio.AioRpcError as error:
        if reason_of(error) != "STREET_SNAP_NOT_FOUND":
            raise
        return True
    return False


async def test_a_merge_reports_first_then_unites_the_albums_and_its_undo_is_exact(gallery: Gallery) -> None:
    right, wrong = unique("Koln"), unique("Cologne am Rhein")
    kept = await gallery.street(right, 2026, 2, ["m1"])
    moved = await gallery.street(wrong, 2026, 2, ["m2"])
    alone = await gallery.street(wrong, 2026, 8, ["m3"])
    pending = await gallery.street(wrong, 2026, 2, ["m4"])
    albums = [(await gallery.approve(draft)).official_id for draft in (kept, moved, alone)]
    source, target = await city_of(gallery, moved), await city_of(gallery, kept)
    report = (await merge(gallery, CITY, source, target, apply=False)).report
    assert (report.draft_count, report.shown_draft_count) == (3, 2)
    assert (report.hidden_official_count, report.gaining_official_count) == (2, 2)
    assert [await gallery.album(album) for album in albums] == [["m1"], ["m2"], ["m3"]]
    assert (await merge(gallery, CITY, source, target)).applied
    assert await gallery.album(albums[0]) == ["m1", "m2"]
    assert await hidden(gallery, albums[1])
    summer = (await gallery.get(alone)).official_id
    assert summer not in albums
    assert await gallery.album(summer) == ["m3"]
    assert (await gallery.get(moved)).subtitle == f"{right} · 2026-02"
    assert (await gallery.get(moved)).street_snap.city == wrong
    assert (await gallery.approve(pending)).official_id == albums[0]
    found = await gallery.intake.FindOfficial(
        intake.FindOfficialRequest(
            job_id="asks", street_snap=intake.StreetSnapTexts(city=wrong, year=2026, month=2)
        )
    )
    assert found.official_id == albums[0]
    assert (await unmerge(gallery, CITY, source)).applied
    assert await gallery.album(albums[0]) == ["m1"]
    assert await gallery.album(albums[1]) == ["m2", "m4"]
    assert await gallery.album(albums[2]) == ["m3"]
    assert await hidden(gallery, summer)


async def test_chains_end_at_the_last_key_and_come_apart_in_any_order(gallery: Gallery) -> None:
    drafts = [await gallery.street(unique("Chain"), 2026, 2, [f"c{i}"]) for i in range(3)]
    albums = [(await gallery.approve(draft)).official_id for draft in drafts]
    a, b, c = [await city_of(gallery, draft) for draft in drafts]
    await merge(gallery, CITY, a, b)
    await merge(gallery, CITY, b, c)
    assert await gallery.album(albums[2]) == ["c0", "c1", "c2"]
    await unmerge(gallery, CITY, b)
    assert await gallery.album(albums[1]) == ["c0", "c1"]
    assert await gallery.album(albums[2]) == ["c2"]
    await unmerge(gallery, CITY, a)
    assert [await gallery.album(album) for album in albums] == [["c0"], ["c1"], ["c2"]]


async def test_what_makes_no_sense_is_refused(gallery: Gallery) -> None:
    a, b = [await city_of(gallery, await gallery.street(unique("Sense"), 2026, 2, ["s"])) for _ in range(2)]
    await merge(gallery, CITY, a, b)
    for call, reason in (
        (merge(gallery, CITY, a, b), "KEY_MERGED"),
        (merge(gallery, CITY, b, a), "MERGE_CYCLE"),
        (merge(gallery, CITY, b, b), "MERGE_CYCLE"),
        (unmerge(gallery, CITY, b), "KEY_NOT_MERGED"),
        (merge(gallery, CITY, b, "999999"), "KEY_NOT_FOUND"),
        (merge(gallery, SEASON, "never", "FW26"), "KEY_NOT_FOUND"),
        (merge(gallery, BRAND, "1", "2", actor=""), "ACTOR_REQUIRED"),
        (merge(gallery, CITY, "x", "1"), "INVALID_ARGUMENT"),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call
        assert reason_of(refused.value) == reason


async def test_brands_and_seasons_merge_as_well(gallery: Gallery) -> None:
    name, season = unique("House"), unique("Unheard Season ")
    created = await gallery.keys.CreateBrand(pb.CreateBrandRequest(name=name))
    one = await gallery.runway("Marni", "FW51", "", ["r1"])
    two = await gallery.runway(name, season, "Ready-to-Wear", ["r2"])
    show = (await gallery.approve(one, RUNWAY)).official_id
    other = (await gallery.approve(two, RUNWAY)).official_id
    marni = (await gallery.get(one, RUNWAY)).runway.brand_id
    await merge(gallery, SEASON, season.strip(), "FW51")
    assert (await gallery.get(two, RUNWAY)).official_id not in {show, other}
    await merge(gallery, BRAND, created.brand.brand_id, marni)
    assert await gallery.show(show) == ["r1", "r2"]
    listed = await gallery.drafts.ListDrafts(
        draft_service_pb2.ListDraftsRequest(kind=RUNWAY, brand="marni", season="FW51")
    )
    assert {draft.draft_id for draft in listed.drafts} == {one, two}
    await unmerge(gallery, SEASON, season.strip())
    await unmerge(gallery, BRAND, created.brand.brand_id)
    assert await gallery.show(show) == ["r1"]
    assert await gallery.show(other) == ["r2"]


async def test_merges_are_audited(gallery: Gallery, database: Database) -> None:
    a, b = [await city_of(gallery, await gallery.street(unique("Audit"), 2026, 2, ["s"])) for _ in range(2)]
    await merge(gallery, CITY, a, b, actor="Ada")
    async with database.begin() as session:
        row = (await session.execute(audit_log.select().order_by(audit_log.c.id.desc()).limit(1))).one()
    assert (row.action, row.actor) == ("keys.merged", "Ada")
    assert (row.details["source"], row.details["target"]) == (int(a), int(b))


async def tried(call: Any) -> None:
    """Make a call that may come too late; a deadlock or any other fault of ours isn't that."""
    [reply] = await outcomes(call)
    if isinstance(reply, BaseException):
        assert isinstance(reply, grpc.aio.AioRpcError)
        assert reply.code() in {grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ABORTED}, reply.details()


async def test_merging_beside_approvals_edits_and_reopenings_loses_nothing(gallery: Gallery) -> None:
    luck = random.Random(5)
    names = [unique("Busy") for _ in range(3)]
    drafts = [await gallery.street(names[i % 3], 2026, 2 + i % 2, [unique("busy")]) for i in range(12)]
    cities = [await city_of(gallery, draft) for draft in drafts[:3]]

    async def editors(draft: str) -> None:
        for _ in range(4):
            step: Any = luck.choice([gallery.approve, gallery.reopen, gallery.delete, gallery.undelete, move])
            await tried(step(draft))

    async def move(draft: str) -> Any:
        return await gallery.edit(draft, city=luck.choice(names), month=luck.choice([2, 3]))

    async def admin() -> None:
        for _ in range(4):
            source, target = luck.sample(cities, 2)
            await tried(merge(gallery, CITY, source, target))
            await tried(unmerge(gallery, CITY, luck.choice(cities)))

    await asyncio.gather(admin(), *(editors(draft) for draft in drafts))
    await _compare(gallery, drafts)
    for city in cities:
        await tried(unmerge(gallery, CITY, city))
    await _compare(gallery, drafts)


async def _compare(gallery: Gallery, drafts: list[str]) -> None:
    """Check that each album holds exactly the drafts that say they are in it."""
    members: dict[str, list[str]] = {}
    for draft in drafts:
        seen = await gallery.get(draft, STREET)
        counted = seen.status == 2 and not seen.deleted
        assert bool(seen.official_id) == counted
        if counted:
            members.setdefault(seen.official_id, []).extend(image.caption for image in seen.images)
    for official, captions in members.items():
        assert await gallery.album(official) == captions


async def test_a_report_asks_as_much_for_many_keys_as_for_few(gallery: Gallery, database: Database) -> None:
    target = int(await city_of(gallery, await gallery.street(unique("Target"), 2026, 1, ["n"])))
    asked_for = []
    for months in (1, 5):
        city = unique("Many")
        drafts = [await gallery.street(city, 2026, month + 1, ["n"]) for month in range(months)]
        for draft in drafts:
            await gallery.approve(draft)
        source = int(await city_of(gallery, drafts[0]))
        with statements(database) as asked:
            report = await Merger(database).merge(
                repository_merge.CITY, source, target, actor="", apply=False
            )
        assert report.hidden_official_count == months
        asked_for.append(len(asked))
    assert asked_for[0] == asked_for[1]
