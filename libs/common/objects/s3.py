"""An object store in an S3 bucket."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store as Bucket

from libs.common.objects.multiparts import end_abandoned
from libs.common.objects.store import (
    ABANDONED_SECONDS,
    CountedErrors,
    ObjectInfo,
    ObjectMissing,
    StoreUnavailable,
    checked_key,
)

PART_BYTES = 8 << 20
# Up to here a body is one request: whatever becomes of its writer, no half multipart stays behind. Such a
# body is in memory.
SINGLE_PUT_BYTES = 32 << 20
# For a request of up to PART_BYTES; a larger body has as much for each part that it might have been.
REQUEST_TIMEOUT = timedelta(seconds=30)
CONNECT_TIMEOUT = timedelta(seconds=5)
MAX_RETRIES = 3
RETRY_SECONDS = 15


class S3Store:
    """Objects in one bucket, below an optional prefix.

    Reads of any size are made of bounded range requests, so that the request timeout bounds a stall and not
    the size of an object. Larger bodies than `SINGLE_PUT_BYTES` go as multiparts, and what a killed or
    cancelled writer leaves of these is ended by `sweep_abandoned`.
    """

    def __init__(self, bucket: str, prefix: str, config: dict[str, str]) -> None:
        """Connect lazily; `config` has obstore's S3 names; keys that it leaves out are in the environment."""
        self._place = (bucket, prefix, config)
        self._errors = CountedErrors("s3", _storage_errors)
        self._bucket = _client(self._place, REQUEST_TIMEOUT)
        # a client has one timeout, so that whole images have a client of their own
        self._patient = _client(self._place, REQUEST_TIMEOUT * (SINGLE_PUT_BYTES // PART_BYTES))

    async def put_bytes(self, key: str, data: bytes) -> None:
        """See ObjectStore."""
        with self._errors():
            await obstore.put_async(
                self._for_body(len(data)),
                checked_key(key),
                data,
                use_multipart=len(data) > SINGLE_PUT_BYTES,
                chunk_size=PART_BYTES,
            )

    async def put_file(self, key: str, path: Path) -> None:
        """See ObjectStore."""
        size = (await asyncio.to_thread(path.stat)).st_size
        with self._errors():
            await obstore.put_async(
                self._for_body(size),
                checked_key(key),
                path,
                use_multipart=size > SINGLE_PUT_BYTES,
                chunk_size=PART_BYTES,
                max_concurrency=4,
            )

    async def move_file(self, key: str, path: Path) -> None:
        """See ObjectStore."""
        await self.put_file(key, path)
        await asyncio.to_thread(path.unlink)

    def _for_body(self, size: int) -> Bucket:
        return self._patient if PART_BYTES < size <= SINGLE_PUT_BYTES else self._bucket

    async def put_stream(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """See ObjectStore. The body is spooled first: a source that fails leaves no half multipart."""
        checked_key(key)
        with tempfile.NamedTemporaryFile(prefix="frontrow-put-") as spool:
            size = 0
            async for chunk in chunks:
                size += await asyncio.to_thread(spool.write, chunk)
            await asyncio.to_thread(spool.flush)
            await self.put_file(key, Path(spool.name))
        return size

    async def get_bytes(self, key: str) -> bytes:
        """See ObjectStore."""
        return b"".join([chunk async for chunk in self.stream(key, chunk_bytes=PART_BYTES)])

    async def stream(self, key: str, *, start: int = 0, chunk_bytes: int = 1 << 18) -> AsyncIterator[bytes]:
        """See ObjectStore."""
        info = await self.head(key)
        if info is None:
            raise ObjectMissing(key)
        for offset in range(start, info.size, PART_BYTES):
            end = min(offset + PART_BYTES, info.size)
            with self._errors(key):
                part = await obstore.get_range_async(self._bucket, key, start=offset, end=end)
            view = memoryview(part)
            for at in range(0, len(view), chunk_bytes):
                yield bytes(view[at : at + chunk_bytes])

    async def head(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        try:
            with self._errors(key):
                return ObjectInfo(size=(await obstore.head_async(self._bucket, checked_key(key)))["size"])
        except ObjectMissing:
            await self._require_bucket()
            return None

    async def delete(self, key: str) -> None:
        """See ObjectStore."""
        try:
            with self._errors(key):
                await obstore.delete_async(self._bucket, checked_key(key))
        except ObjectMissing:
            await self._require_bucket()

    async def list(self, prefix: str = "") -> AsyncIterator[str]:
        """See ObjectStore."""
        pages = obstore.list(self._bucket, prefix=prefix.rstrip("/") or None)
        while True:
            try:
                with self._errors():
                    page = await anext(pages)
            except StopAsyncIteration:
                return
            for entry in page:
                yield entry["path"]

    @asynccontextmanager
    async def local_path(self, key: str) -> AsyncIterator[Path]:
        """See ObjectStore; the copy is gone when the block ends."""
        with tempfile.TemporaryDirectory(prefix="frontrow-object-") as folder:
            path = Path(folder) / Path(key).name
            with path.open("wb") as file:
                async for chunk in self.stream(key, chunk_bytes=1 << 20):
                    await asyncio.to_thread(file.write, chunk)
            yield path

    async def sweep_abandoned(self, older_than_seconds: float = ABANDONED_SECONDS) -> int:
        """See ObjectStore: multipart uploads that were begun that long ago and never ended."""
        name, prefix, config = self._place
        return await asyncio.to_thread(
            end_abandoned, name, prefix, config, older_than_seconds=older_than_seconds
        )

    async def _require_bucket(self) -> None:
        """Raise StoreUnavailable unless the bucket is there: where it isn't, no object of it is missing."""
        async for _ in self.list():
            return

    async def check(self) -> None:
        """See ObjectStore."""
        with self._errors():
            await obstore.list_with_delimiter_async(self._bucket)


def _client(place: tuple[str, str, dict[str, str]], timeout: timedelta) -> Bucket:
    bucket, prefix, config = place
    return Bucket(
        bucket,
        prefix=prefix or None,
        config=config,  # type: ignore[arg-type]  # a TypedDict of many optional names there
        client_options={
            "timeout": timeout,
            "connect_timeout": CONNECT_TIMEOUT,
            "allow_http": config.get("endpoint", "").startswith("http://"),
        },
        retry_config={"max_retries": MAX_RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)},
    )


@contextmanager
def _storage_errors(key: str | None = None) -> Iterator[None]:
    """Turn the client's errors into the store's; with `key`, "not found" is a missing object.

    Without one (a put, a listing) "not found" means the bucket itself.
    """
    try:
        yield
    except FileNotFoundError as error:
        if key is not None:
            raise ObjectMissing(key) from error
        raise StoreUnavailable("the bucket doesn't exist: create it, or correct the store's URL") from error
    except (BaseError, OSError) as error:
        raise StoreUnavailable(f"the object store failed ({type(error).__name__})") from error
