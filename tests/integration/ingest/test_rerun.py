"""Running jobs again, and explaining what keeps an article out (domain.md 3.6, 3.9)."""

from __future__ import annotations

import asyncio
from uuid import UUID

import grpc
import pytest
from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2, ingest_service_pb2
from frontrow.review.v1 import draft_pb2, draft_service_pb2, key_service_pb2, key_service_pb2_grpc
from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy.ext.asyncio import AsyncSession
from structlog.testing import capture_logs

from libs.common.client import connect, error_info
from libs.common.interceptors.context import acting_as
from services.ingest import repository_rerun, servicer_rerun
from tests.integration.ingest.chain import Chain
from tests.integration.ingest.site import picture

Retry = ingest_service_pb2.RetryIngestJobsRequest
Filter = ingest_service_pb2.RetryFilter
Explain = ingest_service_pb2.ExplainSourceRequest
RUNWAY = draft_pb2.GALLERY_KIND_RUNWAY
CREATED = ingest_job_pb2.DONE_REASON_CREATED
SOURCE_DUPLICATE = ingest_job_pb2.DONE_REASON_SOURCE_DUPLICATE


async def retry(chain: Chain, *job_ids: str) -> ingest_service_pb2.RetryIngestJobsResponse:
    return await chain.ingest.stub.RetryIngestJobs(Retry(job_ids=job_ids))


async def purge(chain: Chain, draft_id: str) -> None:
    etag = (await chain.draft(draft_id)).etag
    request = draft_service_pb2.PurgeDraftRequest(kind=RUNWAY, draft_id=draft_id, etag=etag, reason="test")
    with acting_as("admin"):
        await chain.drafts.PurgeDraft(request)


async def explain(chain: Chain, url: str) -> ingest_service_pb2.ExplainSourceResponse:
    request = Explain(kind=gallery_pb2.GALLERY_KIND_RUNWAY, source="vogue", source_url=url)
    return await chain.ingest.stub.ExplainSource(request)


def layer(
    explained: ingest_service_pb2.ExplainSourceResponse, which: int
) -> ingest_service_pb2.ExplainedLayer:
    return next(each for each in explained.layers if each.layer == which)


async def test_a_failed_gallery_runs_again_once_its_source_is_mended_and_fetches_what_is_missing(
    chain: Chain, article: str
) -> None:
    await chain.work()
    fine, bad = chain.site.picture("ok.jpg", 31), chain.site.put("bad.jpg", b"broken")
    job = await chain.ended(await chain.submit(fine, bad, url=article))
    assert job.failure_reason == "IMAGE_REJECTED"
    chain.site.put("bad.jpg", picture(32))
    chain.site.hits.clear()
    assert list((await retry(chain, job.job_id)).retried_job_ids) == [job.job_id]
    again = await chain.ended(job.job_id)
    assert (again.done_reason, again.attempts) == (CREATED, 0)
    assert again.task_id != job.task_id
    assert dict(chain.site.hits) == {"bad.jpg": 1}


async def test_many_at_once_by_reason_after_a_brand_was_added(chain: Chain, article: str) -> None:
    await chain.work()
    url = chain.site.picture("1.jpg", 33)
    brand = "Maison Imaginaire"
    jobs = [
        await chain.ended(await chain.submit(url, url=f"{article}/{i}", brand=brand, source="many"))
        for i in range(3)
    ]
    assert {job.failure_reason for job in jobs} == {"UNKNOWN_BRAND"}
    async with connect(chain.common.peers.review_address) as channel:
        keys = key_service_pb2_grpc.KeyServiceStub(channel)
        await keys.CreateBrand(key_service_pb2.CreateBrandRequest(name=brand))
    wanted = Filter(failure_reasons=["UNKNOWN_BRAND"], source=" Many ")
    first = await chain.ingest.stub.RetryIngestJobs(Retry(filter=wanted, page_size=2))
    assert len(first.retried_job_ids) == 2
    rest = await chain.ingest.stub.RetryIngestJobs(
        Retry(filter=wanted, page_size=2, page_token=first.next_page_token)
    )
    assert (len(rest.retried_job_ids), rest.next_page_token) == (1, "")
    for job in jobs:
        assert (await chain.ended(job.job_id)).done_reason == CREATED


async def test_a_call_that_runs_out_of_time_names_where_to_go_on(
    chain: Chain, article: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chain.work()
    url = chain.site.picture("1.jpg", 36)
    made = [await chain.submit(url, url=f"{article}/{n}", brand="Nobody", source="slow") for n in range(9)]
    for job_id in made:
        await chain.ended(job_id)
    monkeypatch.setattr(servicer_rerun, "PAGE_SECONDS", -1.0)
    by_id, token = list[str](), ""
    for expected in (8, 1):
        answer = await chain.ingest.stub.RetryIngestJobs(Retry(job_ids=made, page_token=token))
        assert len(answer.retried_job_ids) == expected
        by_id += answer.retried_job_ids
        token = answer.next_page_token
    assert (by_id, token) == (made, "")
    for job_id in made:
        await chain.ended(job_id)
    wanted = Filter(failure_reasons=["UNKNOWN_BRAND"], source="slow")
    first = await chain.ingest.stub.RetryIngestJobs(Retry(filter=wanted))
    rest = await chain.ingest.stub.RetryIngestJobs(Retry(filter=wanted, page_token=first.next_page_token))
    assert [*first.retried_job_ids, *rest.retried_job_ids] == list(reversed(made))
    assert rest.next_page_token == ""


async def test_of_jobs_at_once_those_that_can_be_run_again_are_done_with_when_the_call_fails(
    chain: Chain, article: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await chain.work()
    url = chain.site.picture("1.jpg", 38)
    made = [await chain.submit(url, url=f"{article}/{n}", brand="Nobody", source="gather") for n in range(4)]
    jobs = [await chain.ended(job_id) for job_id in made]
    await worker.stop()
    rerun, failed = repository_rerun.rerun, asyncio.Event()

    async def one_fails(session: AsyncSession, job_id: UUID, was: UUID, becomes: UUID) -> bool:
        if str(job_id) == made[0]:
            failed.set()
            raise RuntimeError("for a test")
        await failed.wait()
        return await rerun(session, job_id, was, becomes)

    monkeypatch.setattr(repository_rerun, "rerun", one_fails)
    with capture_logs() as logged, pytest.raises(grpc.aio.AioRpcError):
        await retry(chain, *made)
    assert [line["jobs"] for line in logged if line["event"] == "ingest.retried"] == [3]
    again = [await chain.job(job_id) for job_id in made]
    changed = [now.task_id != before.task_id for now, before in zip(again, jobs, strict=True)]
    assert changed == [False, True, True, True]
    await chain.work()
    for job_id in made:
        await chain.ended(job_id)


async def test_a_duplicate_runs_again_only_when_its_blocker_is_gone(chain: Chain, article: str) -> None:
    await chain.work()
    url = chain.site.picture("1.jpg", 34)
    first = await chain.ended(await chain.submit(url, url=article))
    skipped = await chain.ended(await chain.submit(url, url=article))
    assert skipped.done_reason == SOURCE_DUPLICATE
    refused = await retry(chain, skipped.job_id, first.job_id)
    assert not refused.retried_job_ids
    assert [skip.reason for skip in refused.skipped] == ["STILL_BLOCKED", "OWN_DRAFT"]
    assert refused.skipped[0].blocker.id == first.draft_id
    assert first.draft_id in refused.skipped[1].message
    await purge(chain, first.draft_id)
    assert list((await retry(chain, skipped.job_id)).retried_job_ids) == [skipped.job_id]
    again = await chain.ended(skipped.job_id)
    assert again.done_reason == CREATED
    assert not again.HasField("blocker")


async def test_a_job_is_put_under_one_new_task_however_many_ask_at_once(chain: Chain, article: str) -> None:
    worker = await chain.work()
    url = chain.site.picture("1.jpg", 35)
    job = await chain.ended(await chain.submit(url, url=article, brand="No such brand"))
    await worker.stop()
    answers = await asyncio.gather(*(retry(chain, job.job_id, job.job_id) for _ in range(8)))
    assert sum(len(answer.retried_job_ids) for answer in answers) == 1
    assert {skip.reason for answer in answers for skip in answer.skipped} == {"STILL_OPEN"}
    missing = await retry(chain, "01890000-0000-7000-8000-000000000000")
    assert [skip.reason for skip in missing.skipped] == ["JOB_NOT_FOUND"]


@pytest.mark.parametrize(
    "request_",
    [
        Retry(),
        Retry(filter=Filter(source="vogue")),
        Retry(job_ids=["01890000-0000-7000-8000-000000000000"], filter=Filter(failure_reasons=["X"])),
    ],
)
async def test_neither_ids_nor_reasons_is_refused_and_so_are_both(chain: Chain, request_: Retry) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await chain.ingest.stub.RetryIngestJobs(request_)
    assert error_info(caught.value).code == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_seen_article_is_explained_with_its_draft_who_rejected_it_and_what_to_do(
    chain: Chain, article: str
) -> None:
    await chain.work()
    job = await chain.ended(await chain.submit(chain.site.picture("1.jpg", 36), url=article))
    with acting_as("Åsa"):
        await chain.drafts.RejectDraft(
            draft_service_pb2.RejectDraftRequest(kind=RUNWAY, draft_id=job.draft_id, reason="blurred")
        )
    explained = await explain(chain, f" {article}#look-7")
    assert not explained.would_come_in
    source = layer(explained, ingest_service_pb2.DEDUPE_LAYER_SOURCE)
    assert source.verdict == ingest_service_pb2.LAYER_VERDICT_BLOCKS
    assert (source.blocker.id, source.blocker.status, source.blocker.decided_by) == (
        job.draft_id,
        "rejected",
        "Åsa",
    )
    assert f"ReopenDraft {job.draft_id}" in " ".join(source.actions)
    assert f"PurgeDraft {job.draft_id}" in " ".join(source.actions)
    assert [each.job_id for each in explained.jobs] == [job.job_id]
    await purge(chain, job.draft_id)
    assert (await explain(chain, article)).would_come_in


async def test_a_public_key_and_an_unknown_brand_are_explained(chain: Chain, article: str) -> None:
    await chain.work()
    url = chain.site.picture("1.jpg", 37)
    first = await chain.ended(await chain.submit(url, url=f"{article}/a", season_code="FW31"))
    official_id = await chain.approve(first.draft_id)
    await chain.ended(await chain.submit(url, url=f"{article}/b", season_code="FW31"))
    explained = await explain(chain, f"{article}/b")
    entity = layer(explained, ingest_service_pb2.DEDUPE_LAYER_ENTITY)
    assert not explained.would_come_in
    assert (entity.blocker.kind, entity.blocker.id) == (ingest_job_pb2.BLOCKER_KIND_OFFICIAL, official_id)
    assert "later ones are skipped" in entity.explanation
    await chain.ended(await chain.submit(url, url=f"{article}/c", brand="Nobody At All"))
    unknown = layer(await explain(chain, f"{article}/c"), ingest_service_pb2.DEDUPE_LAYER_ENTITY)
    assert "Nobody At All" in unknown.explanation
    assert "CreateBrand" in unknown.actions[0]


async def test_an_article_never_seen_would_come_in_as_far_as_can_be_told(chain: Chain, article: str) -> None:
    explained = await explain(chain, article)
    assert explained.would_come_in
    assert not explained.jobs
    entity = layer(explained, ingest_service_pb2.DEDUPE_LAYER_ENTITY)
    assert entity.verdict == ingest_service_pb2.LAYER_VERDICT_UNKNOWN


async def test_an_address_alone_takes_kind_and_source_of_its_newest_job(chain: Chain, article: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await chain.ingest.stub.ExplainSource(Explain(source_url=article))
    assert error_info(caught.value).reason == "ARTICLE_UNKNOWN"
    await chain.submit(chain.site.picture("1.jpg"), url=article, source="theimpression")
    explained = await chain.ingest.stub.ExplainSource(Explain(source_url=article))
    assert (explained.source, explained.kind) == ("theimpression", gallery_pb2.GALLERY_KIND_RUNWAY)
    assert len(explained.jobs) == 1


@pytest.mark.parametrize("field", ["source", "source_url"])
async def test_an_article_that_could_never_be_submitted_is_refused_by_field(
    chain: Chain, article: str, field: str
) -> None:
    request = Explain(kind=gallery_pb2.GALLERY_KIND_RUNWAY, source="vogue", source_url=article)
    setattr(request, field, "x" * {"source": 33, "source_url": 513}[field])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await chain.ingest.stub.ExplainSource(request)
    found = error_info(caught.value)
    assert found.code == grpc.StatusCode.INVALID_ARGUMENT
    assert [violation.field for violation in found.violations] == [field]


@pytest.mark.parametrize("bad", [{"seconds": 253402300800}, {"seconds": -62135596801}, {"nanos": -1}])
@pytest.mark.parametrize("field", ["created_after", "created_before"])
async def test_a_time_outside_of_the_calendar_is_refused_by_field(
    chain: Chain, bad: dict[str, int], field: str
) -> None:
    moment = Timestamp(**bad)
    wanted = Filter(failure_reasons=["X"], **{field: moment})  # type: ignore[arg-type]
    listed = ingest_service_pb2.ListIngestJobsRequest(**{field: moment})  # type: ignore[arg-type]
    with pytest.raises(grpc.aio.AioRpcError) as of_list:
        await chain.ingest.stub.ListIngestJobs(listed)
    with pytest.raises(grpc.aio.AioRpcError) as of_retry:
        await chain.ingest.stub.RetryIngestJobs(Retry(filter=wanted))
    for caught, name in ((of_list, field), (of_retry, f"filter.{field}")):
        found = error_info(caught.value)
        assert found.code == grpc.StatusCode.INVALID_ARGUMENT
        assert [violation.field for violation in found.violations] == [name]
