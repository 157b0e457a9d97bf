"""Images are freed of their metadata a few at a time, whoever asks for how many."""

from __future__ import annotations

import asyncio
import io
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from libs.common.errors import DeadlineExceeded
from libs.common.testing import eventually
from services.review import publish
from services.review import renditions as renditions_module
from services.review.errors import PublicBusy
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
    renditions = Renditions(nowhere, store, limit_bytes=1 << 20, room_bytes=1 << 20)
    row = SimpleNamespace(
        key="media/k.jpg", size_bytes=len(data), content_type="image/jpeg", width=40, height=30
    )
    slow = [renditions.published(row) for _ in range(2 * PUBLISHED_AT_ONCE)]
    for reader in slow:  # each has its first part and reads no further
        assert await anext(reader) is not None
    whole = await asyncio.gather(*(collected(renditions, row) for _ in range(3 * PUBLISHED_AT_ONCE)))
    assert {len(parts) for parts in whole} == {2}
    assert store.most == PUBLISHED_AT_ONCE


async def test_a_reader_that_goes_away_keeps_its_place_while_its_image_is_still_worked_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, going_on, begun = b"image", threading.Event(), 0

    def strip(data: bytes, content_type: str) -> bytes:
        nonlocal begun
        begun += 1
        going_on.wait(30)
        return data

    monkeypatch.setattr(publish, "strip", strip)
    store: Any = CountingStore(data)
    nowhere: Any = None
    renditions = Renditions(nowhere, store, limit_bytes=1 << 20, room_bytes=1 << 20)
    row = SimpleNamespace(key="media/k.jpg", size_bytes=5, content_type="image/jpeg", width=1, height=1)
    readers = [asyncio.create_task(collected(renditions, row)) for _ in range(PUBLISHED_AT_ONCE)]
    try:
        await eventually(lambda: begun == PUBLISHED_AT_ONCE)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        following = asyncio.create_task(collected(renditions, row))
        done, _ = await asyncio.wait({following}, timeout=0.2)
        assert (done, begun) == (set(), PUBLISHED_AT_ONCE)
    finally:
        going_on.set()
    assert (await asyncio.wait_for(following, 10))[1:] == [data]
    assert begun == PUBLISHED_AT_ONCE + 1


def _as_they_are(data: bytes, _: str) -> bytes:
    return data


async def test_slow_readers_hold_no_more_memory_than_there_is_room_and_give_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publish, "strip", _as_they_are)
    monkeypatch.setattr(renditions_module, "ROOM_SECONDS", 0.2)
    size = 400_000
    store: Any = CountingStore(bytes(size))
    nowhere: Any = None
    renditions = Renditions(nowhere, store, limit_bytes=1 << 20, room_bytes=1 << 20)
    row = SimpleNamespace(key="media/k.jpg", size_bytes=size, content_type="image/jpeg", width=1, height=1)
    slow = [renditions.published(row) for _ in range(2)]
    for reader in slow:
        await anext(reader)
    with pytest.raises(PublicBusy):
        await collected(renditions, row)
    waiting = asyncio.create_task(collected(renditions, row))
    await asyncio.sleep(0)
    await slow.pop().aclose()  # it went away
    assert sum(map(len, (await waiting)[1:])) == size
    for _ in range(3):  # nothing is kept of what was read to its end
        assert sum(map(len, (await collected(renditions, row))[1:])) == size
    await slow.pop().aclose()


async def test_who_reads_too_slowly_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "strip", _as_they_are)
    monkeypatch.setattr(renditions_module, "READ_SECONDS", -60.0)
    store: Any = CountingStore(b"image")
    nowhere: Any = None
    renditions = Renditions(nowhere, store, limit_bytes=1 << 20, room_bytes=1 << 20)
    row = SimpleNamespace(key="media/k.jpg", size_bytes=5, content_type="image/jpeg", width=1, height=1)
    with pytest.raises(DeadlineExceeded):
        await collected(renditions, row)


async def collected(renditions: Renditions, row: Any) -> list[Any]:
    """Return all parts of a rendition."""
    return [part async for part in renditions.published(row)]
