"""Places to back up and to restore into, and what is in them."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from libs.common.objects import ObjectStore, StoreUnavailable
from libs.common.objects.local import LocalStore
from libs.common.settings import DatabaseSettings
from services.migrate import CONTEXTS
from services.place import Place

Connection = asyncpg.Connection


@asynccontextmanager
async def connected(url: str) -> AsyncIterator["Connection[asyncpg.Record]"]:
    """Open a connection for a `with` block."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def place(url: str, store: ObjectStore, address: str = "/somewhere") -> Place:
    """Return the place of a database without roles and a store."""
    return Place(DatabaseSettings(url=url), store, address)


async def add_image(connection: "Connection[asyncpg.Record]", store: ObjectStore, data: bytes) -> str:
    """Store an image and its row as the ingest worker does, the object first; return its key."""
    key = f"media/{hashlib.sha1(data, usedforsecurity=False).hexdigest()}.jpg"
    await store.put_bytes(key, data)
    await connection.execute(
        "INSERT INTO review.media (key, sha256, size_bytes, content_type, width, height, state)"
        " VALUES ($1, $2, $3, 'image/jpeg', 1, 1, 'live')",
        key,
        hashlib.sha256(data).hexdigest(),
        len(data),
    )
    return key


async def remove_image(connection: "Connection[asyncpg.Record]", store: ObjectStore, key: str) -> None:
    """Remove one as the clean-up does, the object before its row (domain.md 4.9)."""
    await connection.execute("UPDATE review.media SET state = 'deleting' WHERE key = $1", key)
    await store.delete(key)
    await connection.execute("DELETE FROM review.media WHERE key = $1", key)


async def bare_images(url: str, store: ObjectStore) -> list[str]:
    """Return the keys of live images whose bytes aren't there, or are others."""
    bare = []
    async with connected(url) as connection:
        rows = await connection.fetch("SELECT key, sha256 FROM review.media WHERE state = 'live'")
    for row in rows:
        there = await store.head(row["key"])
        if there is None or hashlib.sha256(await store.get_bytes(row["key"])).hexdigest() != row["sha256"]:
            bare.append(row["key"])
    return bare


async def contents(url: str) -> dict[str, str]:
    """Return a hash of all rows of each table of the contexts."""
    async with connected(url) as connection:
        tables = await connection.fetch(
            "SELECT c.oid::regclass::text AS name FROM pg_class c"
            " WHERE c.relnamespace = ANY($1::text[]::regnamespace[]) AND relkind = 'r'",
            list(CONTEXTS),
        )
        query = "SELECT md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM {} t"
        return {row["name"]: await connection.fetchval(query.format(row["name"])) for row in tables}


class HookedStore(LocalStore):
    """A local store that does something around each listing, and counts what is read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.around_list: Callable[[str], Awaitable[None]] | None = None
        self.fail_after: int | None = None
        self.read: list[str] = []
        self.room: int | None = None

    async def put_stream(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """See ObjectStore. Has no room after so many objects."""
        if self.room is not None:
            self.room -= 1
            if self.room < 0:
                raise StoreUnavailable("no room")
        return await super().put_stream(key, chunks)

    async def list(self, prefix: str = "") -> AsyncIterator[str]:
        """See ObjectStore."""
        if self.around_list is not None:
            await self.around_list("before")
        async for key in super().list(prefix):
            yield key
        if self.around_list is not None:
            await self.around_list("after")

    async def stream(self, key: str, *, start: int = 0, chunk_bytes: int = 1 << 18) -> AsyncIterator[bytes]:
        """See ObjectStore. Raises what a broken network does after `fail_after` reads."""
        if self.fail_after is not None and len(self.read) >= self.fail_after:
            raise ConnectionError("the network broke")
        self.read.append(key)
        async for chunk in super().stream(key, start=start, chunk_bytes=chunk_bytes):
            yield chunk
