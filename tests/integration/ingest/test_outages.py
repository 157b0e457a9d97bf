"""Workers, peers and servers that go away in the middle (domain.md 2.4, 3.9)."""

from __future__ import annotations

import asyncio
import dataclasses
import socket

from aiohttp import web
from frontrow.ingest.v1 import ingest_job_pb2

from libs.common.server import ContextServer
from libs.common.testing import eventually
from services.ingest.worker.mount import IngestWorker
from services.review.mount import mount as mount_review
from services.review.settings import ReviewSettings
from tests.integration.ingest.chain import Chain, worker_process
from tests.integration.ingest.site import picture

CREATED = ingest_job_pb2.DONE_REASON_CREATED


async def test_a_worker_told_to_stop_gives_its_job_back_uncharged(chain: Chain, article: str) -> None:
    released = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response(body=picture(54))

    job_id = await chain.submit(chain.site.answer("slow.jpg", slow), url=article)
    async with worker_process(chain) as process:
        await eventually(lambda: chain.site.hits["slow.jpg"] == 1, 60)
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 30) == 0
    released.set()
    await chain.work()
    job = await chain.ended(job_id, 40)
    assert (job.done_reason, job.attempts) == (CREATED, 0)
    assert (await chain.task(job)).attempt == 1


async def test_jobs_wait_for_a_review_context_that_is_down_and_burn_no_attempt(
    chain: Chain, article: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    peers = chain.common.peers.model_copy(update={"review_address": address})
    common = dataclasses.replace(chain.common, peers=peers)
    worker = IngestWorker(chain.worker_settings(), common, store=chain.store, decoder=chain.decoder)
    await worker.start()
    chain.stack.push_async_callback(worker.stop)
    job_id = await chain.submit(chain.site.picture("r.jpg", 55), url=article)

    async def was_given_back() -> bool:
        return (await chain.job(job_id)).task_version >= 2

    await eventually(was_given_back, 30)
    review = ContextServer("review", address, await mount_review(ReviewSettings(), chain.common))
    await review.start()
    chain.stack.push_async_callback(review.stop, 0.5)
    job = await chain.ended(job_id, 60)
    assert (job.done_reason, job.attempts) == (CREATED, 0)
    assert (await chain.task(job)).attempt == 1
