"""Spiders, their clients and their lists of jobs, on a real server."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

import grpc
import pytest
from frontrow.client import Refused, SpiderClient
from frontrow.ingest.v1 import ingest_job_pb2, ingest_service_pb2
from sqlalchemy import select

from libs.common.db import Database
from services.ingest.models import spider_keys
from tests.integration.ingest.conftest import Ingest, gallery
from tests.integration.ingest.submissions import refusal, submission


async def test_a_database_dump_does_not_hold_the_secret(ingest: Ingest, database: Database) -> None:
    async with database.begin() as session:
        query = select(spider_keys.c.sealed_secret).where(spider_keys.c.key_id == ingest.key_id)
        box = (await session.execute(query)).scalar_one()
    assert ingest.secret.encode() not in box
    listed = await ingest.stub.ListSpiders(ingest_service_pb2.ListSpidersRequest(page_size=1000))
    assert ingest.secret not in str(listed)
    assert ingest.key_id in str(listed)


async def test_the_spider_client_repeats_under_the_same_request_id(ingest: Ingest) -> None:
    async with ingest.client() as client:
        first = await client.submit(gallery())
        again = await client.submit(gallery(), request_id=first.request_id)
        job = await client.get_job(first.job_id)
    assert (first.accepted, again.accepted, again.job_id) == (True, False, first.job_id)
    assert job.job_id == first.job_id


async def test_the_ordinary_spider_client_submits_and_names_a_refusal(ingest: Ingest) -> None:
    def work() -> tuple[str, str]:
        with SpiderClient(ingest.address, key_id=ingest.key_id, secret=ingest.secret) as client:
            job_id = client.submit(gallery()).job_id
        wrong = SpiderClient(ingest.address, key_id=ingest.key_id, secret="wrong")
        with wrong, pytest.raises(Refused) as refused:
            wrong.submit(gallery())
        return job_id, refused.value.reason

    job_id, reason = await asyncio.to_thread(work)
    assert UUID(job_id).version == 7
    assert reason == "BAD_SIGNATURE"


async def test_the_spider_client_gives_up_at_its_deadline() -> None:
    nobody = Ingest("127.0.0.1:9", key_id="k", secret="s")
    started = time.monotonic()
    client = nobody.client(deadline_seconds=1.0)
    with pytest.raises(Refused) as refused:
        await client.submit(gallery())
    await client.close()
    assert refused.value.code == grpc.StatusCode.UNAVAILABLE
    assert time.monotonic() - started < 3
    await nobody.channel.close()


async def test_jobs_are_listed_newest_first_by_filter_and_page(ingest: Ingest) -> None:
    source = f"list-{ingest.spider_id[-8:]}"
    made = [(await ingest.call(submission(source=source, url=f"https://l/{i}"))).job_id for i in range(5)]
    request = ingest_service_pb2.ListIngestJobsRequest(source=f" {source.upper()} ", page_size=2)
    seen: list[str] = []
    while True:
        page = await ingest.stub.ListIngestJobs(request)
        seen += [job.job_id for job in page.jobs]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert seen == made[::-1]
    done = ingest_service_pb2.ListIngestJobsRequest(
        source=source, statuses=[ingest_job_pb2.INGEST_JOB_STATUS_DONE]
    )
    assert not (await ingest.stub.ListIngestJobs(done)).jobs
    other = ingest_service_pb2.ListIngestJobsRequest(source="other", page_token=request.page_token)
    assert (await refusal(ingest.stub.ListIngestJobs(other)))[0] == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_spiders_name_is_taken_once_and_a_request_id_answers_the_first(ingest: Ingest) -> None:
    request = ingest_service_pb2.CreateSpiderRequest(
        name=f"once {ingest.spider_id}", request_id=ingest.spider_id
    )
    first = await ingest.stub.CreateSpider(request)
    again = await ingest.stub.CreateSpider(request)
    assert (again.created, again.secret, again.key_id) == (False, "", first.key_id)
    request.request_id = ""
    assert (await refusal(ingest.stub.CreateSpider(request)))[1] == "SPIDER_EXISTS"
