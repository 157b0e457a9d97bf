"""Calls that finish the same upload at the same time: what was stored is what the client sent last."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from libs.common.db import Database
from libs.common.objects import ObjectStore
from services.asr import repository_upload
from services.asr.errors import Sha1Mismatch
from services.asr.uploads import Uploads
from tests.integration.asr.bed import Bed, first, messages, sha1_of

PART = 1 << 16
RIGHT, WRONG = b"what was meant" * 9_000, b"what came first" * 8_400


class SlowStore:
    """A store that has read all of a stream before it halts; everything else is the store's own."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.read = asyncio.Event()
        self.go_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put_stream(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """Store what was read, once that is allowed."""
        content = b"".join([chunk async for chunk in chunks])
        self.read.set()
        await self.go_on.wait()
        await self._store.put_bytes(key, content)
        return len(content)


async def test_a_slow_join_of_wrong_parts_does_not_replace_what_was_sent_after_them(
    bed: Bed, database: Database
) -> None:
    assert len(RIGHT) == len(WRONG)
    slow_store = SlowStore(bed.store)
    uploads, slow = (
        Uploads(database, store, part_bytes=PART)  # type: ignore[arg-type] # it hands on the rest
        for store in (bed.store, slow_store)
    )
    begun = await uploads.receive(first(1, messages(WRONG, sha1=sha1_of(RIGHT), chunk=PART)))
    # it takes over from another server, and so doesn't know yet that the bytes are wrong
    rest = messages(WRONG, upload_id=begun.upload_id, offset=PART)
    joining = asyncio.create_task(slow.receive(rest))
    await slow_store.read.wait()
    with pytest.raises(Sha1Mismatch):
        await uploads.receive(messages(WRONG, upload_id=begun.upload_id, offset=len(WRONG)))
    finished = await uploads.receive(messages(RIGHT, upload_id=begun.upload_id))
    assert (finished.sha1, finished.finished) == (sha1_of(RIGHT), True)
    slow_store.go_on.set()
    assert (await joining).sha1 == sha1_of(RIGHT)
    async with database.begin() as session:
        row = await repository_upload.get(session, UUID(begun.upload_id))
    assert await bed.store.get_bytes(row.media_key) == RIGHT
