"""The whole chain as processes: three servers, one worker, an image site; and galleries through it."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
from frontrow.client import AsyncSpiderClient
from frontrow.ingest.v1 import gallery_pb2, ingest_service_pb2, ingest_service_pb2_grpc
from frontrow.worker import Dial

from libs.common import migrate
from tests.bench import processes
from tests.bench.bed import Bed

IMAGE_BYTES = 2_600_000
POLL_SECONDS = 0.05
CONTEXTS = ("task", "review", "ingest")
_OPEN = "SELECT count(*) FILTER (WHERE status IN ('pending', 'processing')), count(*) FROM ingest.jobs"
_BAD = "SELECT failure_reason, error_message FROM ingest.jobs WHERE status = 'failed' LIMIT 1"


@asynccontextmanager
async def image_site(bed: Bed, image_bytes: int = IMAGE_BYTES) -> AsyncIterator[str]:
    """Run the image site; yield its address."""
    address = processes.free_address()
    program = processes.program(
        "tests.bench.ingest.image_site",
        address,
        str(image_bytes),
        environment={},
        log=bed.folder / "site.log",
    )
    async with program, aiohttp.ClientSession() as session:
        for _ in range(600):
            try:
                async with session.get(f"http://{address}/ready.jpg") as response:
                    await response.read()
                    break
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.1)
        yield address


@dataclass
class Chain:
    """A chain that runs; `pids` are its processes by name."""

    connection: asyncpg.Connection[asyncpg.Record]
    spider: AsyncSpiderClient
    pids: dict[str, int]
    number: int = 0

    async def bring_in(self, galleries: Sequence[Sequence[str]], *, may_fail: bool = False) -> None:
        """Submit galleries of images and wait until all have become drafts."""
        await asyncio.gather(*(self._submit(urls) for urls in galleries))
        while True:
            left, _ = await self.connection.fetchrow(_OPEN)
            if not left:
                break
            await asyncio.sleep(POLL_SECONDS)
        bad = await self.connection.fetchrow(_BAD)
        if bad is not None and not may_fail:
            raise RuntimeError(f"{bad['failure_reason']}: {bad['error_message']}")

    async def _submit(self, urls: Sequence[str]) -> None:
        self.number += 1
        await self.spider.submit(
            gallery_pb2.Gallery(
                kind=gallery_pb2.GALLERY_KIND_RUNWAY,
                title=f"Gallery {self.number}",
                source="bench",
                source_url=f"https://bench.example/{self.number}",
                brand="Gucci",
                season_code="FW26",
                images=[gallery_pb2.GalleryImage(url=url) for url in urls],
            )
        )


@asynccontextmanager
async def chain(
    bed: Bed, widths: Sequence[int], *, store: str = "", **worker_settings: str
) -> AsyncIterator[Chain]:
    """Run the servers and one worker that makes thumbnails of some widths; all is fresh and goes again.

    `store` is the URL of the object store, a folder of the chain's own when empty.
    """
    url = await bed.cluster.make_database("images")
    for context in CONTEXTS:
        await migrate.upgrade(url, context)
    folder = bed.folder / "images"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shared: dict[str, str] = {
        "FRONTROW_OBJECT_STORE": store or str(folder / "objects"),
        "FRONTROW_INGEST_SEALING_KEY": "5e" * 32,
    }
    pids: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        for context in CONTEXTS:
            server = await stack.enter_async_context(bed.server(url, context=context, **shared))
            shared[f"FRONTROW_{context.upper()}_ADDRESS"] = server.address
            pids[context] = server.pid
        settings = {
            "FRONTROW_INGEST_WORKER_ALLOW_LOOPBACK": "true",
            "FRONTROW_INGEST_WORKER_LISTEN": "127.0.0.1:0",
            "FRONTROW_INGEST_WORKER_THUMBNAIL_WIDTHS": json.dumps(list(widths)),
            "FRONTROW_INGEST_WORKER_SCRATCH": str(folder / "scratch"),
            "FRONTROW_LOG_LEVEL": "WARNING",
            **shared,
            **worker_settings,
        }
        worker = await stack.enter_async_context(
            processes.program("services.ingest.worker", environment=settings, log=bed.folder / "worker.log")
        )
        pids["worker"] = worker.pid
        spider = await _spider(shared["FRONTROW_INGEST_ADDRESS"])
        stack.push_async_callback(spider.close)
        connection = await asyncpg.connect(url)
        stack.push_async_callback(connection.close)
        yield Chain(connection, spider, pids)
    shutil.rmtree(folder, ignore_errors=True)


async def _spider(address: str) -> AsyncSpiderClient:
    async with Dial(address).aio() as channel:
        stub = ingest_service_pb2_grpc.IngestServiceStub(channel)
        request = ingest_service_pb2.CreateSpiderRequest(name="bench")
        made: Any = await stub.CreateSpider(request, metadata=(("x-frontrow-actor", "bench"),))
    return AsyncSpiderClient(address, key_id=made.key_id, secret=made.secret)


def folder_of(bed: Bed, name: str) -> Path:
    """Return an empty folder for files that go again."""
    folder = bed.folder / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
