"""A worker that is killed in the middle of a gallery (domain.md 1.6, 3.9)."""

from __future__ import annotations

import asyncio

import psutil
import pytest
from aiohttp import web
from frontrow.ingest.v1 import ingest_job_pb2

from libs.common.testing import eventually
from tests.integration.ingest.chain import Chain, worker_process
from tests.integration.ingest.site import picture

CREATED = ingest_job_pb2.DONE_REASON_CREATED


@pytest.fixture(scope="module")
def lease_seconds() -> float:
    """Give a lease that a test can wait for."""
    return 6.0


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
