"""What is crawled once, in once: the layers of dedupe over the whole chain (domain.md 3.3-3.7)."""

from __future__ import annotations

import asyncio
import logging

import pytest
from aiohttp import web
from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2
from frontrow.review.v1 import draft_pb2, draft_service_pb2, intake_service_pb2

from libs.common.interceptors.context import acting_as
from tests.integration.ingest.chain import Chain, all_of
from tests.integration.ingest.site import picture

STORED, FAILED = ingest_job_pb2.IMAGE_RESULT_STORED, ingest_job_pb2.IMAGE_RESULT_FAILED


async def test_32_submissions_of_one_article_at_once_make_one_draft_and_31_skips(
    chain: Chain, article: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    await chain.work(concurrency=16)
    await chain.work(concurrency=16)
    urls = [chain.site.picture(f"{i}.jpg", i) for i in range(3)]
    made = await asyncio.gather(*(chain.submit(*urls, url=article) for _ in range(32)))
    jobs = await all_of(*(chain.ended(job_id, 60) for job_id in made))
    reasons = [ingest_job_pb2.DoneReason.Name(job.done_reason) for job in jobs]
    assert reasons.count("DONE_REASON_CREATED") == 1
    assert set(reasons) <= {
        "DONE_REASON_CREATED",
        "DONE_REASON_SOURCE_DUPLICATE",
        "DONE_REASON_SOURCE_CONFLICT",
    }
    draft = (await chain.drafts_of(article))[0]
    assert len(await chain.drafts_of(article)) == 1
    for job in jobs:
        assert job.attempts == 0
        assert (await chain.task(job)).attempt == 1
        assert draft.draft_id in {job.draft_id, job.blocker.id}
        if not job.draft_id:
            assert (job.blocker.kind, job.blocker.status) == (ingest_job_pb2.BLOCKER_KIND_DRAFT, "pending")
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []
    printed = capsys.readouterr().out.splitlines()  # the servers' and the pipeline's own lines
    assert any("ingest.source_" in line for line in printed)
    assert [line for line in printed if "level='error'" in line] == []


async def test_of_two_that_both_passed_the_check_one_makes_the_draft_and_one_is_done_by_the_conflict(
    chain: Chain, article: str
) -> None:
    await chain.work(concurrency=2)
    both_look = asyncio.Barrier(2)

    async def held(_: web.Request) -> web.StreamResponse:
        async with asyncio.timeout(20):
            await both_look.wait()
        return web.Response(body=picture(41))

    url = chain.site.answer("held.jpg", held)
    made = [await chain.submit(url, url=article) for _ in range(2)]
    jobs = await all_of(*(chain.ended(job_id, 60) for job_id in made))
    created, met = sorted(jobs, key=lambda job: job.draft_id == "")
    assert created.done_reason == ingest_job_pb2.DONE_REASON_CREATED
    assert met.done_reason == ingest_job_pb2.DONE_REASON_SOURCE_CONFLICT
    assert met.status == ingest_job_pb2.INGEST_JOB_STATUS_DONE
    assert (met.blocker.id, met.attempts) == (created.draft_id, 0)
    assert (await chain.task(met)).attempt == 1
    assert len(await chain.drafts_of(article)) == 1


async def test_a_seen_article_costs_no_request_and_no_store_call(chain: Chain, article: str) -> None:
    await chain.work()
    url = chain.site.picture("1.jpg")
    first = await chain.ended(await chain.submit(url, url=article))
    chain.site.hits.clear()
    chain.store.calls.clear()
    again = await chain.ended(await chain.submit(url, url=article))
    assert again.done_reason == ingest_job_pb2.DONE_REASON_SOURCE_DUPLICATE
    assert again.blocker.id == first.draft_id
    assert not chain.site.hits
    assert not chain.store.calls


async def test_a_skip_names_who_rejected_the_draft_it_met_and_that_it_was_deleted(
    chain: Chain, article: str
) -> None:
    await chain.work()
    url = chain.site.picture("1.jpg")
    first = await chain.ended(await chain.submit(url, url=article))
    kind, draft_id = draft_pb2.GALLERY_KIND_RUNWAY, first.draft_id
    with acting_as("Åsa"):
        await chain.drafts.RejectDraft(
            draft_service_pb2.RejectDraftRequest(kind=kind, draft_id=draft_id, reason="blurred")
        )
        await chain.drafts.DeleteDraft(draft_service_pb2.DeleteDraftRequest(kind=kind, draft_id=draft_id))
    again = await chain.ended(await chain.submit(url, url=article))
    assert again.done_reason == ingest_job_pb2.DONE_REASON_SOURCE_DUPLICATE
    blocker = again.blocker
    assert (blocker.id, blocker.status, blocker.deleted) == (draft_id, "rejected", True)
    assert (blocker.decided_by, blocker.decision_reason) == ("Åsa", "blurred")


async def test_an_old_spider_without_an_address_makes_a_draft_each_time(chain: Chain) -> None:
    await chain.work()
    url = chain.site.picture("1.jpg")
    first, second = await all_of(
        chain.ended(await chain.submit(url, url="", source="")),
        chain.ended(await chain.submit(url, url="", source="")),
    )
    assert first.draft_id
    assert second.draft_id
    assert first.draft_id != second.draft_id


async def test_an_article_whose_key_is_public_is_skipped_and_another_month_is_not(
    chain: Chain, article: str
) -> None:
    await chain.work()
    street = gallery_pb2.GALLERY_KIND_STREET_SNAP
    url = chain.site.picture("1.jpg")

    async def crawl(name: str, month: int, year: int = 2026) -> ingest_job_pb2.IngestJob:
        return await chain.ended(
            await chain.submit(
                url, url=f"{article}/{name}", kind=street, city="København", year=year, month=month
            )
        )

    first = await crawl("a", 2)
    official_id = await chain.approve(first.draft_id, draft_pb2.GALLERY_KIND_STREET_SNAP)
    same = await crawl("b", 2)
    assert same.done_reason == ingest_job_pb2.DONE_REASON_ENTITY_DUPLICATE
    assert (same.blocker.kind, same.blocker.id) == (ingest_job_pb2.BLOCKER_KIND_OFFICIAL, official_id)
    assert (await crawl("c", 8)).done_reason == ingest_job_pb2.DONE_REASON_CREATED
    assert (await crawl("d", 0, 0)).done_reason == ingest_job_pb2.DONE_REASON_CREATED
    assert (await crawl("e", 0, 0)).done_reason == ingest_job_pb2.DONE_REASON_CREATED


async def test_two_sources_of_one_show_both_reach_review(chain: Chain, article: str) -> None:
    await chain.work()
    url = chain.site.picture("1.jpg")
    vogue = await chain.ended(await chain.submit(url, url=f"{article}/v", season_code="SS27"))
    other = await chain.ended(
        await chain.submit(url, url=f"{article}/i", source="theimpression", season_code="SS27")
    )
    assert vogue.draft_id
    assert other.draft_id
    assert (await chain.draft(vogue.draft_id)).images[0].media_key == (
        await chain.draft(other.draft_id)
    ).images[0].media_key


async def test_the_same_address_or_the_same_bytes_twice_is_one_image(chain: Chain, article: str) -> None:
    await chain.work()
    one, twin = chain.site.picture("1.jpg", 1), chain.site.picture("twin.jpg", 1)
    job = await chain.ended(await chain.submit(one, one, twin, url=article))
    assert (job.image_count, chain.site.hits["1.jpg"]) == (2, 1)
    assert [i.original_url for i in (await chain.draft(job.draft_id)).images] == [one]


async def test_a_lost_answer_of_the_draft_is_found_as_the_jobs_own_draft(chain: Chain, article: str) -> None:
    url = chain.site.picture("1.jpg")
    worker = await chain.work()
    other = await chain.ended(await chain.submit(url, url=f"{article}/other"))
    await worker.stop()
    # a run of this job got as far as the draft and died before it heard so: its call is made by hand here
    job_id = await chain.submit(url, url=article)
    images = [intake_service_pb2.IntakeImage(media_key=other.images[0].media_key, original_url=url)]
    made = await chain.intake.CreateRunwayDraft(
        intake_service_pb2.CreateRunwayDraftRequest(
            job_id=job_id,
            source="vogue",
            source_url=article,
            runway=intake_service_pb2.RunwayTexts(brand="Gucci", season_code="FW26"),
            images=images,
        )
    )
    await chain.work()
    job = await chain.ended(job_id)
    assert (job.done_reason, job.draft_id) == (ingest_job_pb2.DONE_REASON_CREATED, made.draft_id)
