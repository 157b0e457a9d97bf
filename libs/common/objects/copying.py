"""Copy objects from one store to another, many at once, and hash them on the way."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from libs.common.objects.store import ObjectMissing, ObjectStore

PARALLEL = 8
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied: size in bytes and SHA-256 in hex."""

    size_bytes: int
    sha256: str


class WrongContent(Exception):
    """Say that an object isn't what it should be; nothing was written for it."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the object {key} isn't what its SHA-256 says")
        self.key = key


async def copy_object(source: ObjectStore, target: ObjectStore, key: str, *, sha256: str = "") -> Copied:
    """Copy one object; with `sha256` only if that is its hash.

    Raises:
        ObjectMissing: the source hasn't got it.
        WrongContent: it has another hash; the target is as before.
    """
    digest = hashlib.sha256()

    async def chunks() -> AsyncIterator[bytes]:
        async for chunk in source.stream(key, chunk_bytes=_CHUNK_BYTES):
            digest.update(chunk)
            yield chunk
        if sha256 and digest.hexdigest() != sha256:
            raise WrongContent(key)

    size = await target.put_stream(key, chunks())
    return Copied(size, digest.hexdigest())


async def hash_object(store: ObjectStore, key: str) -> Copied:
    """Read one object. Raises ObjectMissing."""
    digest, size = hashlib.sha256(), 0
    async for chunk in store.stream(key, chunk_bytes=_CHUNK_BYTES):
        digest.update(chunk)
        size += len(chunk)
    return Copied(size, digest.hexdigest())


async def gather(source: ObjectStore, target: ObjectStore, key: str) -> Copied | None:
    """Copy one object unless the target has one of its size; None when the source has lost it meanwhile."""
    try:
        there = await target.head(key)
        if there is not None and there == await source.head(key):
            return await hash_object(target, key)
        return await copy_object(source, target, key)
    except ObjectMissing:
        return None


async def for_each(keys: AsyncIterator[str], work: Callable[[str], Awaitable[None]]) -> None:
    """Do the work for every key, PARALLEL at once; the first error ends all of it and is raised alone."""
    turn = asyncio.Lock()

    async def one_after_another() -> None:
        while True:
            async with turn:
                key = await anext(keys, None)
            if key is None:
                return
            await work(key)

    workers = [asyncio.ensure_future(one_after_another()) for _ in range(PARALLEL)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)
