"""Intake: what is seen before, what is announced, and drafts that come in once."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from frontrow.review.v1 import draft_pb2
from frontrow.review.v1 import intake_service_pb2 as pb

from libs.common.client import error_info, reason_of
from libs.common.db import Database
from services.review import repository_draft
from tests.integration.review.gallery import RUNWAY, STREET, Gallery, outcomes, unique


async def check(gallery: Gallery, **fields: Any) -> pb.CheckSourceResponse:
    """Ask whether an article was seen before."""
    return await gallery.intake.CheckSource(
        pb.CheckSourceRequest(**{"job_id": "asks", "kind": STREET, **fields})
    )


async def test_thirty_two_creations_of_one_article_make_one_draft_and_no_error_line(
    gallery: Gallery, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    url, city = f"https://site.test/{unique('race')}", unique("Race")
    requests = [
        await gallery.street_request(city, 2026, 2, ["race"], source_url=f" {url}#frag{i} ", source=" Vogue ")
        for i in range(32)
    ]
    replies = await outcomes(*(gallery.intake.CreateStreetSnapDraft(request) for request in requests))
    made = [reply for reply in replies if not isinstance(reply, BaseException)]
    lost = [reply for reply in replies if isinstance(reply, grpc.aio.AioRpcError)]
    assert [reply.created for reply in made] == [True]
    assert {(e.code(), reason_of(e)) for e in lost} == {(grpc.StatusCode.ALREADY_EXISTS, "SOURCE_EXISTS")}
    assert len(lost) == 31
    assert {error_info(e).metadata["draft_id"] for e in lost} == {made[0].draft_id}
    assert "error" not in capsys.readouterr().out.lower().replace("rpc.refused", "")
    assert not [record for record in caplog.records if record.levelname in {"ERROR", "CRITICAL"}]


async def test_a_job_whose_reply_was_lost_finds_its_own_draft(gallery: Gallery) -> None:
    request = await gallery.street_request(unique("Own"), 2026, 2, ["own"])
    replies = await outcomes(*(gallery.intake.CreateStreetSnapDraft(request) for _ in range(8)))
    assert {reply.draft_id for reply in replies} == {replies[0].draft_id}
    assert sum(reply.created for reply in replies) == 1
    own = await check(gallery, job_id=request.job_id, source=request.source, source_url=request.source_url)
    assert own.verdict == pb.INTAKE_VERDICT_OWN_DRAFT
    assert own.draft.draft_id == replies[0].draft_id
    without_url = await check(gallery, job_id=request.job_id)
    assert without_url.verdict == pb.INTAKE_VERDICT_OWN_DRAFT


async def test_a_draft_that_the_jobs_own_run_makes_between_the_two_look_ups_is_its_own(
    gallery: Gallery, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = await gallery.street_request(unique("Between"), 2026, 2, ["between"])
    draft_id = (await gallery.intake.CreateStreetSnapDraft(request)).draft_id

    async def not_yet(*_: object) -> None:
        return None

    monkeypatch.setattr(repository_draft, "find_by_job", not_yet)
    article = {"source": request.source, "source_url": request.source_url}
    own = await check(gallery, job_id=request.job_id, **article)
    assert (own.verdict, own.draft.draft_id) == (pb.INTAKE_VERDICT_OWN_DRAFT, draft_id)
    assert (await check(gallery, **article)).verdict == pb.INTAKE_VERDICT_SOURCE_EXISTS


async def test_crawled_is_terminal_and_the_skip_says_who_rejected_the_draft_and_why(gallery: Gallery) -> None:
    url = f"https://site.test/{unique('seen')}"
    draft = await gallery.street(unique("Seen"), 2026, 2, ["seen"], source_url=url)
    await gallery.reject(draft, reason="too blurred", actor="Änne 編集")
    await gallery.delete(draft)
    met = await check(gallery, source="VOGUE ", source_url=f"{url}#top")
    assert met.verdict == pb.INTAKE_VERDICT_SOURCE_EXISTS
    assert met.draft.status == draft_pb2.DRAFT_STATUS_REJECTED
    assert (met.draft.deleted, met.draft.decided_by, met.draft.reject_reason) == (
        True,
        "Änne 編集",
        "too blurred",
    )
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await gallery.street("Anywhere", 2026, 2, ["seen"], source_url=url)
    told = error_info(refused.value)
    assert told.metadata == {
        "draft_id": draft,
        "status": "rejected",
        "deleted": "true",
        "decided_by": "Änne 編集",
        "reject_reason": "too blurred",
    }


async def test_the_two_kinds_and_other_sources_do_not_block_each_other(gallery: Gallery) -> None:
    url = f"https://site.test/{unique('kinds')}"
    await gallery.street(unique("Kinds"), 2026, 2, ["kinds"], source_url=url)
    assert (
        await check(gallery, source="vogue", source_url=url, kind=RUNWAY)
    ).verdict == pb.INTAKE_VERDICT_FREE
    assert (await check(gallery, source="other", source_url=url)).verdict == pb.INTAKE_VERDICT_FREE
    assert (await check(gallery, source="vogue", source_url=f"{url}?p=2")).verdict == pb.INTAKE_VERDICT_FREE


async def test_articles_without_a_url_never_block_each_other(gallery: Gallery) -> None:
    city = unique("NoUrl")
    drafts = {await gallery.street(city, 2026, 2, ["nourl"], source_url=" #only ") for _ in range(3)}
    assert len(drafts) == 3
    assert (await check(gallery, source="vogue", source_url="")).verdict == pb.INTAKE_VERDICT_FREE


async def test_an_empty_source_with_a_url_takes_part(gallery: Gallery) -> None:
    url = f"https://site.test/{unique('empty')}"
    await gallery.street(unique("Empty"), 2026, 2, ["empty"], source="", source_url=url)
    assert (await check(gallery, source=" ", source_url=url)).verdict == pb.INTAKE_VERDICT_SOURCE_EXISTS


async def test_with_the_two_source_indexes_dropped_intake_goes_on(
    gallery: Gallery, database: Database
) -> None:
    url = f"https://site.test/{unique('dropped')}"
    where = "(source, source_url) WHERE source_url <> ''"
    tables = {"uq_br_draft_source": "brand_runway_drafts", "uq_ss_draft_source": "street_snap_drafts"}
    try:
        async with database.begin() as session:
            connection = await session.connection()
            for index in tables:
                await connection.exec_driver_sql(f"DROP INDEX review.{index}")
        first = await gallery.street(unique("Drop"), 2026, 2, ["drop"], source_url=url)
        second = await gallery.street(unique("Drop"), 2026, 2, ["drop"], source_url=url)
        assert first != second
        assert await gallery.runway("Prada", "FW26", "", ["drop"], source_url=url)
        await gallery.purge(second)
    finally:
        async with database.begin() as session:
            connection = await session.connection()
            for index, table in tables.items():
                await connection.exec_driver_sql(f"CREATE UNIQUE INDEX {index} ON review.{table} {where}")


async def test_only_visible_official_rows_block_an_entity_and_drafts_never_do(gallery: Gallery) -> None:
    city = unique("Entity")
    draft = await gallery.street(city, 2026, 2, ["entity"])

    async def find(month: int = 2, year: int = 2026) -> pb.FindOfficialResponse:
        texts = pb.StreetSnapTexts(city=f"{city.upper()} Fashion Week", year=year, month=month)
        return await gallery.intake.FindOfficial(pb.FindOfficialRequest(job_id="asks", street_snap=texts))

    assert (await find()).verdict == pb.INTAKE_VERDICT_FREE
    official = (await gallery.approve(draft)).official_id
    met = await find()
    assert (met.verdict, met.official_id) == (pb.INTAKE_VERDICT_OFFICIAL_EXISTS, official)
    assert (await find(month=8)).verdict == pb.INTAKE_VERDICT_FREE
    assert (await find(year=0)).verdict == pb.INTAKE_VERDICT_FREE
    await gallery.reopen(draft)
    assert (await find()).verdict == pb.INTAKE_VERDICT_FREE


async def test_the_runway_key_is_brand_season_and_collection_in_any_spelling(gallery: Gallery) -> None:
    draft = await gallery.runway("Miu Miu", "Spring 2031 Menswear", "", ["rk"])
    await gallery.approve(draft, RUNWAY)

    async def verdict(brand: str, season: str, collection: str) -> int:
        texts = pb.RunwayTexts(brand=brand, season_code=season, collection=collection)
        request = pb.FindOfficialRequest(job_id="asks", runway=texts)
        return (await gallery.intake.FindOfficial(request)).verdict

    assert await verdict("缪缪", "SS31", "Men's") == pb.INTAKE_VERDICT_OFFICIAL_EXISTS
    assert await verdict("MIU  MIU", "2031春夏男装", "") == pb.INTAKE_VERDICT_OFFICIAL_EXISTS
    assert await verdict("Miu Miu", "SS31", "") == pb.INTAKE_VERDICT_FREE
    assert await verdict("Miu Miu", "", "Menswear") == pb.INTAKE_VERDICT_FREE
    assert await verdict("", "SS31", "Menswear") == pb.INTAKE_VERDICT_FREE
    with pytest.raises(grpc.aio.AioRpcError) as unknown:
        await verdict("Nobody Heard Of It", "SS31", "")
    assert unknown.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert reason_of(unknown.value) == "UNKNOWN_BRAND"
    assert error_info(unknown.value).metadata["brand"] == "Nobody Heard Of It"


async def test_own_draft_beats_an_official_row(gallery: Gallery) -> None:
    city = unique("OwnOfficial")
    draft = await gallery.street(city, 2026, 2, ["oo"], job_id=unique("job"))
    await gallery.approve(draft)
    job = (await gallery.get(draft)).job_id
    texts = pb.StreetSnapTexts(city=city, year=2026, month=2)
    reply = await gallery.intake.FindOfficial(pb.FindOfficialRequest(job_id=job, street_snap=texts))
    assert (reply.verdict, reply.draft_id) == (pb.INTAKE_VERDICT_OWN_DRAFT, draft)


async def test_an_unknown_brand_makes_no_draft(gallery: Gallery) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await gallery.runway("Atelier Nobody", "FW26", "", ["ub"])
    assert reason_of(refused.value) == "UNKNOWN_BRAND"


async def test_an_image_that_comes_twice_is_kept_once_at_its_first_place(gallery: Gallery) -> None:
    draft = await gallery.street(unique("Twice"), 2026, 2, ["t1", "t2", "t1", "t3"])
    assert [image.caption for image in (await gallery.get(draft)).images] == ["t1", "t2", "t3"]


async def test_an_unknown_city_is_added_once_whoever_brings_it_first(gallery: Gallery) -> None:
    city = unique("Nowhere")
    spellings = [city, city.upper(), f" {city} ", f"{city} Fashion Week"] * 3
    requests = [await gallery.street_request(spelling, 2026, 2, ["nowhere"]) for spelling in spellings]
    replies = await outcomes(*(gallery.intake.CreateStreetSnapDraft(request) for request in requests))
    seen = [(await gallery.get(reply.draft_id)).street_snap for reply in replies]
    assert len({key.city_id for key in seen}) == 1
    assert [key.city for key in seen] == spellings


async def test_an_unknown_season_is_kept_as_written_and_flagged(gallery: Gallery) -> None:
    name = unique("Capsule ")
    drafts = [await gallery.runway("Prada", text, "", ["season"]) for text in (name, name.upper())]
    keys = [(await gallery.get(draft, RUNWAY)).runway for draft in drafts]
    assert {key.season_code for key in keys} == {name.strip()}
    assert not any(key.season_known for key in keys)
    assert (await gallery.approve(drafts[0], RUNWAY)).official_id == (
        await gallery.approve(drafts[1], RUNWAY)
    ).official_id
