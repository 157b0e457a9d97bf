"""Images are freed of their metadata a few at a time, whoever asks for how many."""

from __future__ import annotations

import asyncio
import io
from types import SimpleNamespace
from typing import Any

from PIL import Image

from services.review.renditions import PUBLISHED_AT_ONCE, Renditions


class CountingStore:
    """A store that notes how many read at once."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._reading = 0
        self.most = 0

    async def get_bytes(self, key: str) -> bytes:
        self._reading += 1
        self.most = max(self.most, self._reading)
        await asyncio.sleep(0)
        self._reading -= 1
        return self._data


async def test_few_images_stand_in_memory_at_once_and_a_slow_reader_holds_up_nobody() -> None:
    file = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(file, "JPEG")
    data = file.getvalue()
    store: Any = CountingStore(data)
    nowhere: Any = None
    renditions = Renditions(nowhere, store, publish_limit_bytes=1 << 20)
    row = SimpleNamespace(
        key="media/k.jpg", size_bytes=len(data), content_type="image/jpeg", width=40, height=30
    )
    slow = [renditions.published(row) for _ in range(2 * PUBLISHED_AT_ONCE)]
    for reader in slow:  # each has its first part and reads no further
        assert await anext(reader) is not None
    whole = await asyncio.gather(*(collected(renditions, row) for _ in range(3 * PUBLISHED_AT_ONCE)))
    assert {len(parts) for parts in whole} == {2}
    assert store.most == PUBLISHED_AT_ONCE


async def collected(renditions: Renditions, row: Any) -> list[Any]:
    """Return all parts of a rendition."""
    return [part async for part in renditions.published(row)]
