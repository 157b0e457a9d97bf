"""Workers, peers and servers that go away in the middle (domain.md 2.4, 3.9)."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil
import pytest
from aiohttp import web
from frontrow.ingest.v1 import ingest_job_pb2

from libs.common.server import ContextServer
from libs.common.testing import eventually
from services.ingest.worker.mount import IngestWorker
from services.review.mount import mount as mount_review
from services.review.settings import ReviewSettings
from tests.integration.ingest.chain import Chain
from tests.integration.ingest.site import picture

CREATED = ingest_job_pb2.DONE_REASON_CREATED


@pytest.fixture(scope="module")
def lease_seconds() -> float:
    """Give a lease that a test can wait for."""
    return 6.0


@asynccontextmanager
async def worker_process(chain: Chain) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `python -m services.ingest.worker` against the chain; killed at the end if it still runs."""
    peers = chain.common.peers
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "FRONTROW_TASK_ADDRESS": peers.task_address,
        "FRONTROW_REVIEW_ADDRESS": peers.review_address,
        "FRONTROW_INGEST_ADDRESS": peers.ingest_address,
        "FRONTROW_OBJECT_STORE": chain.common.store.object_store,
        "FRONTROW_INGEST_WORKER_ALLOW_LOOPBACK": "true",
        "FRONTROW_INGEST_WORKER_LISTEN": "127.0.0.1:0",
        "FRONTROW_INGEST_WORKER_DECODERS": "1",
        "FRONTROW_INGEST_WORKER_SCRATCH": str(chain.folder / "scratch"),
    }
    argv = [sys.executable, "-m", "services.ingest.worker"]
    process = await asyncio.create_subprocess_exec(*argv, env=environment)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_killed_workers_job_is_completed_by_another_which_fetches_only_what_is_missing(
    chain: Chain, article: str
) -> None:
    released = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response(body=picture(53))

    urls = [chain.site.picture("k1.jpg", 51), chain.site.picture("k2.jpg", 52)]
    urls.append(chain.site.answer("slow.jpg", slow))
    job_id = await chain.submit(*urls, url=article)
    async with worker_process(chain) as process:

        async def two_are_stored() -> bool:
            images = (await chain.job(job_id)).images
            return [i.result == ingest_job_pb2.IMAGE_RESULT_STORED for i in images] == [True, True, False]

        await eventually(two_are_stored, 60)
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        await process.wait()
    await eventually(lambda: not any(child.is_running() for child in children))
    released.set()
    await chain.work()
    job = await chain.ended(job_id, 40)
    assert job.done_reason == CREATED
    assert [i.original_url for i in (await chain.draft(job.draft_id)).images] == urls
    assert dict(chain.site.hits) == {"k1.jpg": 1, "k2.jpg": 1, "slow.jpg": 2}
    assert not list((chain.folder / "scratch").iterdir())


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
