"""A backup of the product at work, restored into a fresh place, passes the demo's checks there."""

import asyncio
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
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
from tests.e2e.external_postgres import external_postgres
from tests.e2e.process import frontrow
from tests.integration.objects.servers import moto_endpoint, store_url

pytestmark = pytest.mark.timeout(500)  # a whole product three times, and the transcription of two minutes


Key = ingest_service_pb2.CreateSpiderResponse


class Product:
    """The product on a data folder, with the checks of the demo."""

    def __init__(self, data_dir: Path, **settings: str) -> None:
        self.data_dir = data_dir
        self.settings = settings
        self.instance = Instance(data_dir, data_dir.parent / f"{data_dir.name}.log", **settings)
        self.report = Report(Console(quiet=True))

    async def __aenter__(self) -> "Product":
        await self.instance.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert await self.instance.stop() == 0
        assert self.report.deviations() == []

    async def frontrow_json(self, *arguments: str) -> Any:
        asked = ("--data-dir", str(self.data_dir), *arguments, "--json")
        done = await asyncio.to_thread(frontrow, *asked, **self.settings)
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

    known = Known(site, key, jobs, pages, (material.id, made))
    try:
        await _restore(fresh, folder, data_dir)
        await _check_restored(Product(fresh), known)
    finally:
        remove_data(fresh / "postgres")
    await _check_elsewhere(folder, data_dir, known)


async def _check_elsewhere(folder: Path, data_dir: Path, known: "Known") -> None:
    """Restore into a PostgreSQL and a bucket of one's own."""
    elsewhere, passwords = data_dir.parent / "elsewhere", data_dir.parent / "roles.pgpass"
    with moto_endpoint() as endpoint:
        async with external_postgres() as database:
            place = {
                "FRONTROW_DATABASE_URL": database.owner_url,
                "FRONTROW_DATABASE_ROLES": "true",
                "FRONTROW_OBJECT_STORE": store_url(endpoint, "restored"),
            }
            await _done("db", "roles", "--passwords", str(passwords), "--apply", **place)
            await _restore(elsewhere, folder, data_dir, **place)
            logins = {"FRONTROW_DATABASE_URL": f"{database.url()}?passfile={passwords}"}
            await _check_restored(Product(elsewhere, **{**place, **logins}), known)


@dataclass(frozen=True)
class Known:
    """What the backed up product had, and what the images' site and its spider are."""

    site: ImageSite
    key: Key
    jobs: galleries.Jobs
    pages: dict[str, str]
    heard: tuple[str, Any]


async def _restore(into: Path, folder: Path, backed_up: Path, **settings: str) -> None:
    await _done("--data-dir", str(into), "db", "restore", str(folder), **settings)
    await asyncio.to_thread(into.mkdir, exist_ok=True)
    shutil.copy(backed_up / "ingest-sealing.key", into)


async def _done(*arguments: str, **settings: str) -> None:
    done = await asyncio.to_thread(frontrow, *arguments, **settings)
    assert done.returncode == 0, done.stderr


async def _check_restored(restored: Product, known: Known) -> None:
    """Ask the restored product what the demo asks, and for every stored image."""
    site, key, jobs, pages = known.site, known.key, known.jobs, known.pages
    async with restored as product:
        galleries.check_jobs(jobs, site, product.report)
        await editor.check_catalogue(product.instance, jobs, pages, product.report)
        await product.check_recording(*known.heard)
        images = await product.frontrow_json("media", "check")
        assert images["damaged"] == []
        assert images["checked_count"] > 10
        # the spider's key still signs, and an article that came in once doesn't come in again
        async with product.spider(key) as spider:
            job_id = (await spider.submit(galleries.articles(site)["vogue show"])).job_id
            repeated = await galleries.finished(spider, job_id, "an article of before the backup")
        assert repeated.blocker.id == jobs["vogue show"].draft_id
