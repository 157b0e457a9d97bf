"""Trouble of the worker's own machine: a full disk, no descriptors left (domain.md 2.4)."""

from __future__ import annotations

import io
import os
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from frontrow.ingest.v1 import ingest_job_pb2
from PIL import Image

from libs.common.fetch_problems import MachineTrouble
from libs.common.testing import eventually
from services.ingest.worker.decode import Decoder
from services.ingest.worker.settings import IngestWorkerSettings
from tests.integration.ingest.chain import Chain
from tests.integration.ingest.downloads import downloader
from tests.integration.ingest.site import Site, image_site, picture

FULL_DISK = Path("/dev/full")  # the kernel's own: every write says ENOSPC


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with image_site() as running:
        yield running


@contextmanager
def limited(which: int, most: int) -> Iterator[None]:
    """Lower a limit of this process for a while."""
    before = resource.getrlimit(which)
    resource.setrlimit(which, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)


async def test_a_full_disk_is_the_workers_trouble_and_not_the_connections(site: Site) -> None:
    async with downloader(IngestWorkerSettings(allow_loopback=True)) as opened:
        with pytest.raises(MachineTrouble, match="No space left"):
            await opened.fetch(site.picture("a.jpg"), referer="", target=FULL_DISK)


async def test_a_scratch_folder_that_is_gone_is_the_workers_trouble(site: Site, tmp_path: Path) -> None:
    async with downloader(IngestWorkerSettings(allow_loopback=True)) as opened:
        with pytest.raises(MachineTrouble, match="scratch folder"):
            await opened.fetch(site.picture("a.jpg"), referer="", target=tmp_path / "gone" / "1")


async def test_a_process_without_descriptors_does_not_blame_the_host(site: Site, tmp_path: Path) -> None:
    url = site.picture("a.jpg")
    async with downloader(IngestWorkerSettings(allow_loopback=True)) as opened:
        (tmp_path / "1").touch()
        free = os.open("/dev/null", os.O_RDONLY)
        os.close(free)
        with limited(resource.RLIMIT_NOFILE, free), pytest.raises(MachineTrouble):
            await opened.fetch(url, referer="", target=tmp_path / "1")
        assert (await opened.fetch(url, referer="", target=tmp_path / "1")).size > 0


async def test_thumbnails_that_find_no_room_are_the_workers_trouble(decoder: Decoder, tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(picture(size=(640, 480)))
    (tmp_path / "image.24.webp").symlink_to(FULL_DISK)
    with pytest.raises(MachineTrouble, match="No space left"):
        await decoder.decode(tmp_path / "image")
    (tmp_path / "image.24.webp").unlink()
    assert (await decoder.decode(tmp_path / "image")).width == 640


async def test_a_disk_that_is_full_holds_jobs_up_and_burns_no_attempt(chain: Chain, article: str) -> None:
    noise, buffer = Image.frombytes("RGB", (1300, 1300), os.urandom(1300 * 1300 * 3)), io.BytesIO()
    noise.save(buffer, "PNG", compress_level=1)
    url = chain.site.put("large.png", buffer.getvalue())
    await chain.work()
    with limited(resource.RLIMIT_FSIZE, 4 << 20):
        job_id = await chain.submit(url, url=article)

        async def was_given_back_twice() -> bool:
            return (await chain.job(job_id)).task_version >= 5

        await eventually(was_given_back_twice, 20)
        assert (await chain.job(job_id)).status != ingest_job_pb2.INGEST_JOB_STATUS_FAILED
        left = list((chain.folder / "scratch").iterdir())
        assert len(left) <= 1, "a full disk is not filled further: what a run had is gone with it"
    job = await chain.ended(job_id, 40)
    assert (job.done_reason, job.attempts) == (ingest_job_pb2.DONE_REASON_CREATED, 0)
    assert (await chain.task(job)).attempt == 1
