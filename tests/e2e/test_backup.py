"""A backup of the product at work, restored into a fresh place, passes the demo's checks there."""

import asyncio
import json
import shutil
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from frontrow.client import AsyncSpiderClient
from frontrow.ingest.v1 import gallery_pb2, ingest_service_pb2, ingest_service_pb2_grpc
from rich.console import Console
from rich.progress import Progress

from demo import clips, editor, galleries, recording
from demo.instance import Instance
from demo.report import Report
from demo.site import ImageSite
from libs.common.postgres_place import remove_data
from libs.common.testing import eventually
from tests.e2e.process import frontrow

pytestmark = pytest.mark.timeout(400)  # a whole product twice, and the transcription of two minutes


Key = ingest_service_pb2.CreateSpiderResponse


class Product:
    """The product on a data folder, with the checks of the demo."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.instance = Instance(data_dir, data_dir.parent / f"{data_dir.name}.log")
        self.report = Report(Console(quiet=True))

    async def __aenter__(self) -> "Product":
        await self.instance.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert await self.instance.stop() == 0
        assert self.report.deviations() == []

    async def frontrow_json(self, *arguments: str) -> Any:
        done = await asyncio.to_thread(frontrow, "--data-dir", str(self.data_dir), *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    async def new_key(self) -> Key:
        admin = ingest_service_pb2_grpc.IngestServiceStub(self.instance.channel("ingest"))
        request = ingest_service_pb2.CreateSpiderRequest(name="tireless")
        return await admin.CreateSpider(request, timeout=10)

    def spider(self, key: Key) -> AsyncSpiderClient:
        address = self.instance.connection.address("ingest")
        return AsyncSpiderClient(address, key_id=key.key_id, secret=key.secret)

    async def check_recording(self, material_id: str, made: Sequence[Any]) -> None:
        await recording.check_transcript(self.instance, material_id, self.report)
        await clips.check_clips(self.instance, made, self.data_dir.parent / "clips", self.report)


async def _submit_until(stop: asyncio.Event, product: Product, site: ImageSite, key: Key) -> int:
    """Submit new galleries without a pause; return how many."""
    async with product.spider(key) as spider:
        for number in count():
            if stop.is_set():
                return number
            images = [
                gallery_pb2.GalleryImage(url=f"{site.origin}/photos/{photo}?{number}", position=place)
                for place, photo in enumerate(galleries.AUGUST, start=1)
            ]
            gallery = gallery_pb2.Gallery(
                kind=gallery_pb2.GALLERY_KIND_STREET_SNAP, title=f"Street {number}", source="tireless",
                source_url=f"https://tireless/{number}", city="Paris", year=2026, month=1, images=images,
            )  # fmt: skip
            await spider.submit(gallery)
            await asyncio.sleep(0.02)
    raise AssertionError("unreachable")


async def test_a_backup_of_a_busy_product_passes_the_demos_checks_where_it_is_restored(
    data_dir: Path, site: ImageSite
) -> None:
    folder, fresh = data_dir.parent / "backup", data_dir.parent / "fresh"
    async with Product(data_dir) as product:
        instance, report = product.instance, product.report
        with Progress(console=report.console) as progress:
            material = await recording.upload(instance, report, progress)
            jobs = await galleries.submit_and_wait(instance, site, report)
            pages = await editor.approve_all(instance, jobs, report)
            material = await recording.transcribed(instance, material.id, report, progress)
            made = await recording.sliced(instance, material, report, progress)
        stop = asyncio.Event()
        key = await product.new_key()
        busy = asyncio.create_task(_submit_until(stop, product, site, key))

        async def is_busy() -> bool:
            return bool((await product.frontrow_json("jobs"))[0]["source"] == "tireless")

        await eventually(is_busy)
        manifest = await product.frontrow_json("db", "backup", str(folder))
        stop.set()
        submitted = await busy
    assert manifest["lost"] == []
    jobs_backed_up = manifest["contexts"]["ingest"]["rows"]["jobs"]
    assert len(jobs) < jobs_backed_up < len(jobs) + submitted

    done = await asyncio.to_thread(frontrow, "--data-dir", str(fresh), "db", "restore", str(folder))
    assert done.returncode == 0, done.stderr
    shutil.copy(data_dir / "ingest-sealing.key", fresh)
    try:
        await _check_restored(fresh, site, key, (jobs, pages), (material.id, made))
    finally:
        remove_data(fresh / "postgres")


async def _check_restored(
    fresh: Path,
    site: ImageSite,
    key: Key,
    shown: tuple[galleries.Jobs, dict[str, str]],
    heard: tuple[str, Any],
) -> None:
    """Ask the restored product what the demo asks, and for every stored image."""
    jobs, pages = shown
    async with Product(fresh) as product:
        galleries.check_jobs(jobs, site, product.report)
        await editor.check_catalogue(product.instance, jobs, pages, product.report)
        await product.check_recording(*heard)
        images = await product.frontrow_json("media", "check")
        assert images["damaged"] == []
        assert images["checked_count"] > 10
        # the spider's key still signs, and an article that came in once doesn't come in again
        async with product.spider(key) as spider:
            job_id = (await spider.submit(galleries.articles(site)["vogue show"])).job_id
            repeated = await galleries.finished(spider, job_id, "an article of before the backup")
        assert repeated.blocker.id == jobs["vogue show"].draft_id
