"""Images are told to the other contexts in batches, also when they become ready one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from frontrow.ingest.v1 import gallery_pb2

from services.ingest.worker import images as images_module
from services.ingest.worker.decode import Decoded
from services.ingest.worker.download import Fetched
from services.ingest.worker.gathered import Job
from services.ingest.worker.images import BATCH, GalleryImages
from services.ingest.worker.settings import IngestWorkerSettings


class Peers:
    """Both peers and the store: note how many objects each call names."""

    def __init__(self) -> None:
        self.reserved: list[int] = []
        self.confirmed: list[int] = []
        self.recorded: list[int] = []

    async def reserve(self, job_id: str, items: list[Any]) -> dict[str, str]:
        self.reserved.append(len(items))
        return {item.key: "reservation" for item in items}

    async def confirm(self, job_id: str, reservations: dict[str, str]) -> None:
        self.confirmed.append(len(reservations))

    async def record(self, run: Any, job_id: str, outcomes: Iterable[Any]) -> None:
        self.recorded.append(len(list(outcomes)))

    async def move_file(self, key: str, path: Path) -> None:
        await asyncio.sleep(0)


class SlowSite:
    """A site whose images come one after the other, each when the one before has long been ready."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()

    async def fetch(self, url: str, *, referer: str, target: Path) -> Fetched:
        async with self._one:
            for _ in range(100):
                await asyncio.sleep(0)
        return Fetched(target, f"{hash(url):040x}", "0" * 64, 1, length_known=True)


async def decode(path: Path) -> Decoded:
    return Decoded("jpg", "image/jpeg", 1, 1, "0" * 16, ())


async def test_images_that_become_ready_one_by_one_are_committed_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images_module, "BATCH_SECONDS", 60.0)  # however slow the machine is
    peers: Any = Peers()
    downloader: Any = SlowSite()
    decoder: Any = SimpleNamespace(decode=decode)
    images = GalleryImages(
        IngestWorkerSettings(scratch=tmp_path),
        ingest=peers, intake=peers, store=peers, downloader=downloader, decoder=decoder,
    )  # fmt: skip
    urls = [f"https://i.example/{n}" for n in range(BATCH + 4)]
    gallery = gallery_pb2.Gallery(images=[gallery_pb2.GalleryImage(url=url) for url in urls])
    run: Any = None
    shares: list[float] = []
    found = await images.gather(Job(run, "job", gallery, kept={}), shares.append)
    assert found.keys.keys() == set(urls)
    # nothing was kept from before, and nothing failed: the first reservation and the last record are empty
    assert peers.reserved == [0, BATCH, 4]
    assert peers.confirmed == [BATCH, 4]
    assert peers.recorded == [BATCH, 4, 0]
    assert shares == [BATCH / len(urls), 1.0]
