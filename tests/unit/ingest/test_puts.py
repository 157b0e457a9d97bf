"""The store gets a few bodies at once from a worker, however many galleries it has in hand."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from frontrow.ingest.v1 import gallery_pb2

from services.ingest.worker.decode import Decoded
from services.ingest.worker.download import Fetched
from services.ingest.worker.gathered import Job
from services.ingest.worker.images import PUTS_AT_ONCE, GalleryImages
from services.ingest.worker.settings import IngestWorkerSettings


class CountingStore:
    """A store that notes how many bodies it gets at once."""

    def __init__(self) -> None:
        self.now = self.most = self.all = 0

    async def move_file(self, key: str, path: Path) -> None:
        self.now += 1
        self.all += 1
        self.most = max(self.most, self.now)
        for _ in range(50):
            await asyncio.sleep(0)
        self.now -= 1


async def absent(job_id: str, items: list[Any]) -> list[str]:
    return [item.key for item in items]


async def done(*anything: object) -> None:
    return None


async def fetch(url: str, *, referer: str, target: Path) -> Fetched:
    return Fetched(target, f"{hash(url):040x}", "0" * 64, 1, length_known=True)


async def decode(path: Path) -> Decoded:
    return Decoded("jpg", "image/jpeg", 1, 1, "0" * 16, ())


async def test_galleries_share_the_places_of_bodies_on_their_way_to_the_store(tmp_path: Path) -> None:
    store: Any = CountingStore()
    parts: dict[str, Any] = {
        "ingest": SimpleNamespace(record=done),
        "intake": SimpleNamespace(reserve=absent, confirm=done),
        "downloader": SimpleNamespace(fetch=fetch),
        "decoder": SimpleNamespace(decode=decode),
    }
    images = GalleryImages(IngestWorkerSettings(scratch=tmp_path), store=store, **parts)
    run: Any = None
    jobs = [
        Job(run, f"job-{g}", gallery_pb2.Gallery(images=[
            gallery_pb2.GalleryImage(url=f"https://i.example/{g}/{n}", position=n) for n in range(1, 13)
        ]), kept={})
        for g in range(6)
    ]  # fmt: skip
    found = await asyncio.gather(*(images.gather(job, lambda _: None) for job in jobs))
    assert [len(each.keys) for each in found] == [12] * 6
    assert (store.all, store.most) == (72, PUTS_AT_ONCE)
