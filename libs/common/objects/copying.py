"""Copy objects from one store to another, many at once, and hash them on the way."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

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

    async def chunks() -> AsyncGenerator[bytes, None]:
        async with aclosing(_stream(source, key)) as stream:
            async for chunk in stream:
                digest.update(chunk)
                yield chunk
        if sha256 and digest.hexdigest() != sha256:
            raise WrongContent(key)

    async with aclosing(chunks()) as whole:
        size = await target.put_stream(key, whole)
    return Copied(size, digest.hexdigest())


async def hash_object(store: ObjectStore, key: str) -> Copied:
    """Read one object. Raises ObjectMissing."""
    digest, size = hashlib.sha256(), 0
    async with aclosing(_stream(store, key)) as stream:
        async for chunk in stream:
            digest.update(chunk)
            size += len(chunk)
    return Copied(size, digest.hexdigest())


def _stream(store: ObjectStore, key: str) -> AsyncGenerator[bytes, None]:
    """Return the object's bytes as what can be closed before its end: files don't wait for the collector."""
    return cast("AsyncGenerator[bytes, None]", store.stream(key, chunk_bytes=_CHUNK_BYTES))


async def gather(source: ObjectStore, target: ObjectStore, key: str) -> Copied | None:
    """Copy one object unless the target has one of its size; None when neither has it any more."""
    there = await target.head(key)
    try:
        if there is not None and there == await source.head(key):
            return await hash_object(target, key)
        return await copy_object(source, target, key)
    except ObjectMissing:
        return None if there is None else await hash_object(target, key)


async def for_each(keys: AsyncIterator[str], work: Callable[[str], Awaitable[None]]) -> None:
    """Do the work for every key, PARALLEL at once.

    After an error what was begun is finished, nothing more is begun, and the first error is raised alone.
    """
    turn = asyncio.Lock()
    errors: list[Exception] = []

    async def one_after_another() -> None:
        while not errors:
            async with turn:
                key = await anext(keys, None)
            if key is None:
                return
            await work(key)

    async def until_an_error() -> None:
        try:
            await one_after_another()
        except Exception as error:  # noqa: BLE001  (raised below)
            errors.append(error)

    await asyncio.gather(*(until_an_error() for _ in range(PARALLEL)))
    if errors:
        raise errors[0]
