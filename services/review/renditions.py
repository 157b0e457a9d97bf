"""Stream stored images: untouched to editors, freed of metadata to the public."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from libs.common.db import Database
from libs.common.errors import DeadlineExceeded
from libs.common.objects import ObjectMissing, ObjectStore
from services.review import errors, publish, repository_media
from services.review.room import NoRoom, Room

CHUNK_BYTES = 256 * 1024
# An image that is freed of its metadata stands in memory twice.
PUBLISHED_AT_ONCE = 4
# It stays there until it is read, and anybody may ask: all have one room, and each reader so much time.
ROOM_SECONDS = 5.0
READ_SECONDS, READ_BYTES_PER_SECOND = 120.0, 64 * 1024


@dataclass(frozen=True)
class Info:
    """What precedes the bytes of a rendition. `etag` changes with the bytes and only then."""

    key: str
    content_type: str
    size_bytes: int
    width: int
    height: int
    etag: str


Part = Info | bytes


class Renditions:
    """Finds and reads renditions; holds no transaction while it reads the store.

    Of what is freed of its metadata `limit_bytes` bounds one image, `room_bytes` all of them at once.
    """

    def __init__(self, database: Database, store: ObjectStore, *, limit_bytes: int, room_bytes: int) -> None:
        self._database = database
        self._store = store
        self._publish_limit_bytes = limit_bytes
        self._publishing = asyncio.Semaphore(PUBLISHED_AT_ONCE)
        self._room = Room(room_bytes, patience_seconds=ROOM_SECONDS)

    async def find(self, key: str, *, min_width: int | None, public: bool) -> Any:
        """Return the media row of the wanted rendition.

        `min_width` is None for the original, else the least width of the wanted thumbnail in pixels.

        Raises:
            MediaNotFound: no draft (or, for the public, no visible official row) shows the image.
        """
        async with self._database.begin() as session:
            original = await repository_media.find_shown(session, key, public=public)
            if original is None:
                told = "no visible page" if public else "no draft"
                raise errors.MediaNotFound(f"{told} shows an image {key!r}", key=key)
            if min_width is None:
                return original
            return await repository_media.find_thumbnail(session, original.id, min_width) or original

    async def stored(self, row: Any) -> AsyncIterator[Part]:
        """Yield the info and then the bytes as they are stored.

        Raises:
            MediaLost: the object is gone or has another length.
            StoreUnavailable: the store can't be read now.
        """
        yield _info(row, row.size_bytes, row.sha256)
        sent = 0
        try:
            async with aclosing(self._chunks(row.key)) as chunks:
                async for chunk in chunks:
                    sent += len(chunk)
                    yield chunk
        except ObjectMissing as error:
            raise _lost(row.key) from error
        if sent != row.size_bytes:
            raise _lost(row.key)

    async def _chunks(self, key: str) -> AsyncGenerator[bytes, None]:
        async for chunk in self._store.stream(key, chunk_bytes=CHUNK_BYTES):
            yield chunk

    async def published(self, row: Any) -> AsyncGenerator[Part, None]:
        """Yield the info and then the bytes without EXIF, XMP and other metadata. Close it: it holds memory.

        Raises:
            MediaLost, StoreUnavailable: as `stored`.
            MediaUnpublishable: the format can't be freed of its metadata, or the image is too large for it.
            PublicBusy: others are being read, and there is no room beside them.
            DeadlineExceeded: it was read too slowly.
        """
        if row.size_bytes > self._publish_limit_bytes:
            raise errors.MediaUnpublishable(f"{row.key!r} is too large; ask for a thumbnail", key=row.key)
        try:
            taken = await self._room.take(row.size_bytes)
        except NoRoom:
            raise errors.PublicBusy(
                "as many images as may be are being read; try again", retry_delay_seconds=ROOM_SECONDS
            ) from None
        try:
            clean = await self._stripped(row)
            seconds = READ_SECONDS + len(clean) / READ_BYTES_PER_SECOND
            ends = time.monotonic() + seconds
            yield _info(row, len(clean), hashlib.sha256(clean).hexdigest())
            for start in range(0, len(clean), CHUNK_BYTES):
                if time.monotonic() > ends:
                    raise DeadlineExceeded(f"{row.key!r} was not read within {seconds:.0f} s")
                yield clean[start : start + CHUNK_BYTES]
        finally:
            self._room.give_back(taken)

    async def _stripped(self, row: Any) -> bytes:
        """Return an object's bytes without metadata; it stands in memory twice meanwhile."""
        await self._publishing.acquire()
        stripping: asyncio.Task[bytes] | None = None
        try:
            data = await self._whole(row)
            stripping = asyncio.create_task(asyncio.to_thread(publish.strip, data, row.content_type))
            return await asyncio.shield(stripping)
        except publish.NotStrippable as error:
            raise errors.MediaUnpublishable(f"{row.key!r} can't be shown: {error}", key=row.key) from error
        finally:
            # A thread can't be ended: its reader may be gone, yet it holds the image, and so its place.
            if stripping is None:
                self._publishing.release()
            else:
                stripping.add_done_callback(self._end)

    def _end(self, stripping: asyncio.Task[bytes]) -> None:
        self._publishing.release()
        if not stripping.cancelled():
            stripping.exception()  # looked at: nobody else may be there to do so

    async def _whole(self, row: Any) -> bytes:
        try:
            data = await self._store.get_bytes(row.key)
        except ObjectMissing as error:
            raise _lost(row.key) from error
        if len(data) != row.size_bytes:
            raise _lost(row.key)
        return data


def _info(row: Any, size_bytes: int, sha256: str) -> Info:
    return Info(
        key=row.key,
        content_type=row.content_type,
        size_bytes=size_bytes,
        width=row.width,
        height=row.height,
        etag=sha256[:32],
    )


def _lost(key: str) -> errors.MediaLost:
    message = f"the stored image {key!r} is gone or damaged; put its object back from a back-up"
    return errors.MediaLost(message, key=key)
