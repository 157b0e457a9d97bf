"""The chain over real S3 servers: moto, and a SeaweedFS that hangs (other tests have a local folder)."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import psutil
import pytest
from aiohttp import web
from frontrow.ingest.v1 import ingest_job_pb2, ingest_service_pb2

from libs.common.settings import CommonSettings
from libs.common.testing import eventually
from services.ingest.worker.decode import Decoder
from tests.integration.ingest.chain import Chain, running_chain, running_servers, task_settings
from tests.integration.ingest.site import picture
from tests.integration.objects.servers import (
    BUCKET,
    KEYS,
    moto_endpoint,
    seaweedfs_endpoint,
    store_url,
)

DONE, FAILED = ingest_job_pb2.INGEST_JOB_STATUS_DONE, ingest_job_pb2.INGEST_JOB_STATUS_FAILED
CREATED = ingest_job_pb2.DONE_REASON_CREATED
SEEDS: dict[str, int] = {}


@pytest.fixture(scope="module", params=["moto", "seaweedfs"])
def endpoint(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """Give a server, and nothing else of it."""
    with ExitStack() as stack:
        if request.param == "moto":
            yield stack.enter_context(moto_endpoint())
        else:
            (folder / "weed").mkdir()
            yield stack.enter_context(seaweedfs_endpoint(folder / "weed"))


@pytest.fixture(scope="module")
async def servers(database_url: str, endpoint: str) -> AsyncIterator[CommonSettings]:
    name = hashlib.sha1(endpoint.encode()).hexdigest()[:8]
    store = store_url(endpoint, f"chain-{name}")
    async with running_servers(database_url, store, task_settings(60.0)) as common:
        yield common


@pytest.fixture
async def chain(
    servers: CommonSettings, folder: Path, decoder: Decoder, request: pytest.FixtureRequest
) -> AsyncIterator[Chain]:
    async with running_chain(servers, folder, decoder, request.node.name) as running:
        yield running


@pytest.fixture
def seed(endpoint: str) -> int:
    """Give numbers of pictures that no other store has: the rows of all of them are in one database."""
    return SEEDS.setdefault(endpoint, 100 * (len(SEEDS) + 1))


async def test_what_a_site_served_is_what_the_store_gives_back(chain: Chain, article: str, seed: int) -> None:
    await chain.work()
    bodies = [picture(seed + n, kind=kind) for n, kind in enumerate(("JPEG", "PNG", "WEBP", "AVIF", "GIF"))]
    urls = [chain.site.put(f"{n}.jpg", body) for n, body in enumerate(bodies)]
    job = await chain.ended(await chain.submit(*urls, url=article))
    assert job.done_reason == CREATED
    draft = await chain.draft(job.draft_id)
    assert [await chain.store.get_bytes(image.media_key) for image in draft.images] == bodies
    assert all([await chain.store.head(image.thumbnail_keys[0]) for image in job.images])


async def test_a_mended_gallery_fetches_and_stores_what_was_missing_alone(
    chain: Chain, article: str, seed: int
) -> None:
    await chain.work()
    mended = False

    async def broken(request: web.Request) -> web.StreamResponse:
        return web.Response(body=picture(seed + 6) if mended else picture(seed + 6)[:400])

    fine, shaky = chain.site.picture("fine.jpg", seed + 7), chain.site.answer("shaky.jpg", broken)
    job = await chain.ended(await chain.submit(fine, shaky, url=article))
    assert (job.status, job.failure_reason) == (FAILED, "IMAGE_REJECTED")
    mended = True
    puts = chain.store.calls["put"]
    request = ingest_service_pb2.RetryIngestJobsRequest(job_ids=[job.job_id])
    await chain.ingest.stub.RetryIngestJobs(request)
    again = await chain.ended(job.job_id)
    assert (again.status, dict(chain.site.hits)) == (DONE, {"fine.jpg": 1, "shaky.jpg": 2})
    assert chain.store.calls["put"] - puts == 2, "the image and its thumbnail"


@pytest.mark.parametrize("endpoint", ["seaweedfs"], indirect=True)
async def test_a_store_that_hangs_holds_jobs_up_and_burns_no_attempt(
    chain: Chain, article: str, folder: Path, seed: int
) -> None:
    await chain.work()
    weed = next(c for c in psutil.Process().children() if str(folder / "weed") in " ".join(c.cmdline()))
    weed.send_signal(signal.SIGSTOP)
    try:
        job_id = await chain.submit(chain.site.picture("held.jpg", seed + 8), url=article)
        await eventually(lambda: chain.store.calls["put"] >= 1, 20)
    finally:
        weed.send_signal(signal.SIGCONT)
    job = await chain.ended(job_id, 60)
    assert (job.done_reason, job.attempts) == (CREATED, 0)
    assert (await chain.task(job)).attempt == 1


@pytest.mark.parametrize("endpoint", ["moto"], indirect=True)  # to whom every upload is of 2010
async def test_a_worker_ends_what_killed_writers_left_half_uploaded(
    chain: Chain, servers: CommonSettings, endpoint: str
) -> None:
    prefix = urlsplit(servers.store.object_store).path.strip("/")
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1",
        aws_access_key_id=KEYS["access_key_id"], aws_secret_access_key=KEYS["secret_access_key"],
    )  # fmt: skip
    client.create_multipart_upload(Bucket=BUCKET, Key=f"{prefix}/asr/film.mp4")
    await chain.work()
    await eventually(lambda: "Uploads" not in client.list_multipart_uploads(Bucket=BUCKET))
    client.close()
