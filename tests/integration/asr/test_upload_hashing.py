"""An upload is hashed while it comes in, whoever else writes to it meanwhile."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from frontrow.asr.v1 import live_material_service_pb2 as pb

from libs.common.db import Database
from libs.common.objects import ObjectStore
from services.asr import repository_upload
from services.asr.errors import ObjectLost, OffsetMismatch, Sha1Mismatch
from services.asr.uploads import Uploads
from tests.integration.asr.bed import Bed, first, messages, sha1_of

PART = 1 << 10
NOBODYS = "0" * 40


class Watched:
    """A store that counts what is read of it and holds back what it is told to; the rest is handed on."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.read_bytes = 0
        self.joined: list[str] = []
        self.held_back: dict[bytes, asyncio.Event] = {}
        self.came = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put_bytes(self, key: str, data: bytes) -> None:
        """Store an object, once that is allowed."""
        if (allowed := self.held_back.get(data)) is not None:
            self.came.set()
            await allowed.wait()
        await self._store.put_bytes(key, data)

    async def put_stream(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """Store a stream and note its key."""
        self.joined.append(key)
        return await self._store.put_stream(key, chunks)

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        """Read an object and count its bytes."""
        async for chunk in self._store.stream(key):
            self.read_bytes += len(chunk)
            yield chunk


class Server(Uploads):
    """A server's uploads over a watched store."""

    def __init__(self, database: Database, store: ObjectStore) -> None:
        self.store = Watched(store)
        super().__init__(database, self.store, part_bytes=PART)  # type: ignore[arg-type] # it hands on the rest

    async def begin(self, content: bytes, *, parts: int, sha1: str | None = None) -> str:
        """Send the first parts of a new upload; returns its id."""
        return (await self.receive(first(parts, messages(content, sha1=sha1, chunk=PART)))).upload_id

    async def go_on(self, content: bytes, upload_id: str, *, after: int, parts: int = 1 << 20) -> pb.Upload:
        """Send some parts that follow the first `after` ones."""
        rest = messages(content, upload_id=upload_id, offset=after * PART, chunk=PART)
        return await self.receive(first(parts, rest))


@pytest.fixture
def server(bed: Bed, database: Database) -> Server:
    return Server(database, bed.store)


@pytest.fixture
def other(bed: Bed, database: Database) -> Server:
    return Server(database, bed.store)


async def stored(bed: Bed, database: Database, upload_id: str) -> bytes:
    async with database.begin() as session:
        row = await repository_upload.get(session, UUID(upload_id))
    return await bed.store.get_bytes(row.media_key)


async def test_bytes_that_are_not_what_was_announced_are_refused_and_none_of_them_is_read(
    server: Server,
) -> None:
    content = os.urandom(3 * PART + 17)
    with pytest.raises(Sha1Mismatch) as refused:
        await server.receive(messages(content, sha1=NOBODYS, chunk=PART))
    assert refused.value.metadata["sha1"] == sha1_of(content)
    assert (server.store.read_bytes, server.store.joined) == (0, [])


async def test_an_upload_is_read_once_to_join_it(bed: Bed, database: Database, server: Server) -> None:
    content = os.urandom(3 * PART + 17)
    answer = await server.receive(messages(content, sha1="", chunk=PART))
    assert (answer.sha1, server.store.read_bytes) == (sha1_of(content), len(content))
    assert await stored(bed, database, answer.upload_id) == content


async def test_an_upload_that_goes_on_at_its_server_is_hashed_on_from_where_it_broke(server: Server) -> None:
    content = os.urandom(4 * PART + 5)
    upload_id = await server.begin(content, parts=2, sha1=NOBODYS)
    await server.go_on(content, upload_id, after=2, parts=1)
    with pytest.raises(Sha1Mismatch) as refused:
        await server.go_on(content, upload_id, after=3)
    assert refused.value.metadata["sha1"] == sha1_of(content)
    assert (server.store.read_bytes, server.store.joined) == (0, [])


async def test_a_server_that_takes_an_upload_over_reads_it_once_and_hashes_it_then(
    bed: Bed, database: Database, server: Server, other: Server
) -> None:
    content = os.urandom(4 * PART + 5)
    upload_id = await server.begin(content, parts=2)
    assert not (await other.go_on(content, upload_id, after=2, parts=1)).finished
    assert other.store.read_bytes == 0
    answer = await other.go_on(content, upload_id, after=3)
    assert (answer.sha1, other.store.read_bytes) == (sha1_of(content), len(content))
    assert await stored(bed, database, upload_id) == content
    upload_id = await server.begin(content, parts=2, sha1=NOBODYS)
    with pytest.raises(Sha1Mismatch):
        await other.go_on(content, upload_id, after=2)


async def test_an_upload_that_came_back_from_another_server_is_hashed_when_it_is_joined(
    bed: Bed, database: Database, server: Server, other: Server
) -> None:
    content = os.urandom(4 * PART)
    upload_id = await server.begin(content, parts=1)
    await other.go_on(content, upload_id, after=1, parts=1)
    answer = await server.go_on(content, upload_id, after=2)
    assert answer.sha1 == sha1_of(content)
    assert await stored(bed, database, upload_id) == content


async def test_of_two_calls_only_the_winners_part_is_hashed(
    bed: Bed, database: Database, server: Server
) -> None:
    content = os.urandom(4 * PART)
    upload_id = await server.begin(content, parts=2)
    late = os.urandom(PART)
    server.store.held_back[late] = asyncio.Event()
    losing = asyncio.create_task(server.go_on(content[: 2 * PART] + late, upload_id, after=2))
    await server.store.came.wait()
    await server.go_on(content, upload_id, after=2, parts=1)
    server.store.held_back[late].set()
    with pytest.raises(OffsetMismatch):
        await losing
    answer = await server.go_on(content, upload_id, after=3)
    assert (answer.sha1, server.store.read_bytes) == (sha1_of(content), len(content))
    assert await stored(bed, database, upload_id) == content


async def test_an_upload_that_started_over_elsewhere_to_the_same_size_is_hashed_as_it_is_now(
    bed: Bed, database: Database, server: Server, other: Server
) -> None:
    wrong, right = (os.urandom(3 * PART) for _ in range(2))
    upload_id = await server.begin(wrong, parts=2, sha1=sha1_of(right))
    with pytest.raises(Sha1Mismatch):
        await other.go_on(wrong, upload_id, after=2)
    await other.go_on(right, upload_id, after=0, parts=2)
    assert (await server.go_on(right, upload_id, after=2)).sha1 == sha1_of(right)
    assert await stored(bed, database, upload_id) == right


async def test_a_call_whose_part_comes_behind_other_bytes_than_it_went_on_from_hashes_those(
    bed: Bed, database: Database, server: Server, other: Server
) -> None:
    wrong, right = (os.urandom(3 * PART) for _ in range(2))
    upload_id = await server.begin(wrong, parts=2, sha1=sha1_of(right))
    last = right[2 * PART :]
    server.store.held_back[last] = asyncio.Event()
    going_on = asyncio.create_task(server.go_on(right, upload_id, after=2))
    await server.store.came.wait()
    with pytest.raises(Sha1Mismatch):
        await other.go_on(wrong, upload_id, after=2)
    await other.go_on(right, upload_id, after=0, parts=2)
    server.store.held_back[last].set()
    assert (await going_on).sha1 == sha1_of(right)
    assert await stored(bed, database, upload_id) == right


async def test_a_part_that_the_store_has_cut_is_told_as_lost(
    bed: Bed, database: Database, server: Server
) -> None:
    content = os.urandom(3 * PART)
    upload_id = await server.begin(content, parts=2)
    async with database.begin() as session:
        keys = await repository_upload.part_keys(session, UUID(upload_id))
    await bed.store.put_bytes(keys[0], content[:5])
    with pytest.raises(ObjectLost):
        await server.go_on(content, upload_id, after=2)
