"""From a signed submission to a draft, over real servers, HTTP and a real store (domain.md 3)."""

from __future__ import annotations

import hashlib
import itertools
import time
from pathlib import Path

import grpc
import pytest
from aiohttp import web
from frontrow.ingest.v1 import ingest_job_pb2, ingest_service_pb2
from frontrow.task.v1 import task_pb2, task_service_pb2

from libs.common.objects import open_url
from libs.common.testing import eventually
from tests.integration.ingest.chain import Chain
from tests.integration.ingest.conftest import gallery
from tests.integration.ingest.site import picture

STORED, FAILED = ingest_job_pb2.IMAGE_RESULT_STORED, ingest_job_pb2.IMAGE_RESULT_FAILED


async def test_a_gallery_becomes_a_draft_with_its_images_in_order(chain: Chain, article: str) -> None:
    await chain.work()
    urls = [chain.site.picture(f"{i}.jpg", i) for i in range(5)]
    message = gallery(*urls, url=f"  {article}#look-1 ", source=" Vogue")
    message.images[4].position = 0
    for index in range(4):
        message.images[index].position = 4 - index
        message.images[index].caption = f"Look {index}"
    job = await chain.ended(await chain.submit_gallery(message))
    assert job.done_reason == ingest_job_pb2.DONE_REASON_CREATED
    assert job.attempts == 0
    assert {image.result for image in job.images} == {STORED}
    draft = await chain.draft(job.draft_id)
    assert [i.original_url for i in draft.images] == [urls[i] for i in (4, 3, 2, 1, 0)]
    assert [i.caption for i in draft.images] == ["", "Look 3", "Look 2", "Look 1", "Look 0"]
    assert (draft.source, draft.source_url, draft.job_id) == ("vogue", article, job.job_id)
    body = picture(4)
    sha1 = hashlib.sha1(body).hexdigest()
    assert draft.images[0].media_key == f"media/{sha1[:2]}/{sha1}.jpg"
    assert await chain.store.get_bytes(draft.images[0].media_key) == body
    assert (await chain.task(job)).status == task_pb2.TASK_STATUS_COMPLETED


async def test_an_unknown_brand_fails_at_once_and_is_named(chain: Chain, article: str) -> None:
    await chain.work()
    url = chain.site.picture("1.jpg")
    job = await chain.ended(await chain.submit(url, url=article, brand="Nobody & Sons 没有"))
    assert job.failure_reason == "UNKNOWN_BRAND"
    assert "Nobody & Sons 没有" in job.error_message
    assert not chain.site.hits
    assert (await chain.task(job)).status == task_pb2.TASK_STATUS_FAILED


async def test_one_broken_image_of_many_fails_the_whole_and_a_retry_fetches_it_alone(
    chain: Chain, article: str
) -> None:
    await chain.work()
    urls = [chain.site.picture(f"{i}.jpg", i) for i in range(6)]
    chain.site.put("3.jpg", picture(3)[:400], Content_Type="image/jpeg")
    job = await chain.ended(await chain.submit(*urls, url=article))
    assert (job.status, job.failure_reason) == (ingest_job_pb2.INGEST_JOB_STATUS_FAILED, "IMAGE_REJECTED")
    assert f"image 4 of 6 ({urls[3]}): BROKEN_IMAGE" in job.error_message
    assert [i.result for i in job.images] == [STORED, STORED, STORED, FAILED, STORED, STORED]
    assert (job.images[3].reason, job.attempts) == ("BROKEN_IMAGE", 1)
    assert not await chain.drafts_of(article)
    assert (await chain.task(job)).attempt == 1
    chain.site.hits.clear()
    chain.site.picture("3.jpg", 3)
    await chain.tasks.RetryTask(task_service_pb2.RetryTaskRequest(task_id=job.task_id))

    async def mended() -> ingest_job_pb2.IngestJob | None:
        found = await chain.job(job.job_id)
        return found if found.status == ingest_job_pb2.INGEST_JOB_STATUS_DONE else None

    done = await eventually(mended, 20)
    assert done is not None
    assert dict(chain.site.hits) == {"3.jpg": 1}
    assert [i.original_url for i in (await chain.draft(done.draft_id)).images] == urls


@pytest.mark.parametrize(
    ("body", "headers", "reason"),
    [
        (b"<html>please log in</html>", {"Content_Type": "image/jpeg"}, "NOT_AN_IMAGE"),
        (b"x" * 20_000_001, {}, "TOO_LARGE"),
        (b"", {"Location": "http://169.254.169.254/latest"}, "ADDRESS_BLOCKED"),
    ],
)
async def test_what_is_no_image_is_permanent_and_named(
    chain: Chain, article: str, body: bytes, headers: dict[str, str], reason: str
) -> None:
    await chain.work()
    status = 302 if "Location" in headers else 200
    bad = chain.site.put("bad.jpg", body, status=status, **headers)
    job = await chain.ended(await chain.submit(chain.site.picture("ok.jpg"), bad, url=article))
    assert job.failure_reason == "IMAGE_REJECTED"
    assert [i.reason for i in job.images] == ["", reason]
    assert chain.site.hits["bad.jpg"] == 1


async def test_extension_and_type_come_from_the_bytes_whatever_the_address_says(
    chain: Chain, article: str
) -> None:
    await chain.work()
    bodies = {"a.jpg": "WEBP", "b.png": "JPEG", "none": "AVIF", "login.html": "PNG"}
    urls = [
        chain.site.put(path, picture(1, kind=kind), Content_Type="text/html") for path, kind in bodies.items()
    ]
    job = await chain.ended(await chain.submit(*urls, url=article))
    draft = await chain.draft(job.draft_id)
    assert [Path(i.media_key).suffix for i in draft.images] == [".webp", ".jpg", ".avif", ".png"]
    assert [i.content_type for i in draft.images] == ["image/webp", "image/jpeg", "image/avif", "image/png"]


async def test_a_server_in_trouble_is_asked_three_times_and_then_the_job_fails(
    chain: Chain, article: str
) -> None:
    await chain.work()
    fine, bad = chain.site.picture("ok.jpg"), chain.site.put("busy.jpg", b"", status=500)
    job = await chain.ended(await chain.submit(fine, bad, url=article))
    assert job.status == ingest_job_pb2.INGEST_JOB_STATUS_FAILED
    assert job.attempts == 3
    assert "busy.jpg" in job.error_message
    assert dict(chain.site.hits) == {"ok.jpg": 1, "busy.jpg": 3}


async def test_a_server_that_recovers_costs_one_attempt_and_no_second_download(
    chain: Chain, article: str
) -> None:
    await chain.work()
    left = [500, 503]

    async def answer(request: web.Request) -> web.StreamResponse:
        if left:
            return web.Response(status=left.pop())
        return web.Response(body=picture(2))

    fine, shaky = chain.site.picture("ok.jpg"), chain.site.answer("shaky.jpg", answer)
    job = await chain.ended(await chain.submit(fine, shaky, url=article))
    assert (job.done_reason, job.attempts) == (ingest_job_pb2.DONE_REASON_CREATED, 2)
    assert dict(chain.site.hits) == {"ok.jpg": 1, "shaky.jpg": 3}


async def test_an_image_that_a_closed_connection_cut_is_fetched_again(chain: Chain, article: str) -> None:
    await chain.work()
    body = picture(61)

    async def mend() -> None:
        chain.site.put("old.jpg", body)

    cut = b"HTTP/1.0 200 OK\r\nContent-Type: image/jpeg\r\n\r\n" + body[: len(body) // 2]
    url = chain.site.raw("old.jpg", cut, then=mend)
    job = await chain.ended(await chain.submit(url, url=article))
    assert (job.done_reason, job.attempts) == (ingest_job_pb2.DONE_REASON_CREATED, 1)
    assert await chain.store.get_bytes(job.images[0].media_key) == body


async def test_a_host_that_asks_for_a_long_pause_costs_no_attempt(chain: Chain, article: str) -> None:
    await chain.work(longest_host_wait_seconds=0.05)
    left = [429]

    async def answer(request: web.Request) -> web.StreamResponse:
        if left:
            return web.Response(status=left.pop(), headers={"Retry-After": "1"})
        return web.Response(body=picture(2))

    job = await chain.ended(await chain.submit(chain.site.answer("polite.jpg", answer), url=article))
    assert (job.done_reason, job.attempts) == (ingest_job_pb2.DONE_REASON_CREATED, 0)


async def test_a_host_that_asks_for_pause_after_pause_is_charged_from_some_number_on(
    chain: Chain, article: str
) -> None:
    await chain.work(longest_host_wait_seconds=0.05, free_host_pauses=2)
    asked: list[float] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(time.monotonic())
        return web.Response(status=429, headers={"Retry-After": "1"})

    url = chain.site.answer("stubborn.jpg", answer)
    job_id = await chain.submit(chain.site.picture("fine.jpg"), url, url=article)
    job = await chain.ended(job_id, 30)
    assert (job.status, job.attempts) == (ingest_job_pb2.INGEST_JOB_STATUS_FAILED, 3)
    assert "SERVER_BUSY" in job.error_message
    assert job.images[1].pauses == len(asked) == 5, "two are free, then three tries"
    # being charged is no licence: the host is left alone as long as it asked for each time
    assert min(later - earlier for earlier, later in itertools.pairwise(asked)) > 0.9
    assert chain.site.hits["fine.jpg"] <= 1


async def test_a_re_run_gives_a_host_its_pauses_anew(chain: Chain, article: str) -> None:
    await chain.work(longest_host_wait_seconds=0.05, free_host_pauses=0)
    left = [429, 429, 429, 429]

    async def answer(request: web.Request) -> web.StreamResponse:
        if left:
            return web.Response(status=left.pop(), headers={"Retry-After": "1"})
        return web.Response(body=picture(2))

    job = await chain.ended(await chain.submit(chain.site.answer("slow.jpg", answer), url=article), 30)
    assert job.images[0].pauses == 3
    request = ingest_service_pb2.RetryIngestJobsRequest(job_ids=[job.job_id])
    await chain.ingest.stub.RetryIngestJobs(request)
    assert (await chain.job(job.job_id)).images[0].pauses == 0
    again = await chain.ended(job.job_id, 30)
    assert (again.done_reason, again.images[0].pauses) == (ingest_job_pb2.DONE_REASON_CREATED, 0)


async def test_a_store_that_is_down_holds_jobs_up_and_burns_no_attempt(chain: Chain, article: str) -> None:
    await chain.work()
    chain.store.down = True
    job_id = await chain.submit(chain.site.picture("1.jpg", seed=77), url=article)
    await eventually(lambda: chain.store.calls["put"] >= 3, 20)
    waiting = await chain.job(job_id)
    assert waiting.status not in {
        ingest_job_pb2.INGEST_JOB_STATUS_DONE,
        ingest_job_pb2.INGEST_JOB_STATUS_FAILED,
    }
    chain.store.down = False
    job = await chain.ended(job_id, 40)
    assert (job.done_reason, job.attempts) == (ingest_job_pb2.DONE_REASON_CREATED, 0)
    assert (await chain.task(job)).attempt == 1


async def test_a_cancelled_task_fails_its_job(chain: Chain, article: str) -> None:
    job_id = await chain.submit(chain.site.picture("1.jpg"), url=article)
    task_id = (await chain.job(job_id)).task_id

    async def cancelled() -> bool:
        try:
            await chain.tasks.CancelTask(task_service_pb2.CancelTaskRequest(task_id=task_id))
        except grpc.aio.AioRpcError:
            return False
        return True

    await eventually(cancelled)
    job = await chain.ended(job_id)
    assert job.failure_reason == "CANCELLED"


async def test_thumbnails_are_stored_beside_their_original(chain: Chain, article: str) -> None:
    await chain.work(thumbnail_widths=(16, 32))
    job = await chain.ended(await chain.submit(chain.site.picture("1.jpg", 9), url=article))
    keys = list(job.images[0].thumbnail_keys)
    assert len(keys) == 2
    stem = job.images[0].media_key.removesuffix(".jpg")
    assert all(key.startswith(stem) for key in keys)
    store = open_url(chain.common.store.object_store)
    assert all([await store.head(key) for key in keys])


@pytest.mark.parametrize(
    "payload", [{}, {"job_id": "no id"}, {"job_id": "01890000-0000-7000-8000-000000000000"}]
)
async def test_a_task_without_a_job_fails_at_once(chain: Chain, payload: dict[str, str]) -> None:
    await chain.work()
    request = task_service_pb2.CreateTaskRequest(type="ingest", max_attempts=3)
    request.payload.update(payload)
    task_id = (await chain.tasks.CreateTask(request)).task.id

    async def ended() -> task_pb2.Task | None:
        task = (await chain.tasks.GetTask(task_service_pb2.GetTaskRequest(task_id=task_id))).task
        return task if task.status == task_pb2.TASK_STATUS_FAILED else None

    task = await eventually(ended, 20)
    assert task is not None
    assert task.attempt == 1
