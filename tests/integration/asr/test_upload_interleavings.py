"""However calls to several servers mix, an upload ends with the hash of the bytes that are stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

from frontrow.asr.v1 import live_material_service_pb2 as pb
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from libs.common.db import Database
from libs.common.errors import DomainError
from libs.common.ids import uuid7
from services.asr import repository_upload
from services.asr.errors import Sha1Mismatch
from services.asr.uploads import Uploads
from tests.integration.asr.bed import Bed, sha1_of

PART, PARTS, SERVERS = 8, 3, 2
RIGHT = b"r" * PART * PARTS


class Call:
    """A call that sends a part when it is told to."""

    def __init__(self, uploads: Uploads, upload_id: str, offset: int) -> None:
        self._queue: asyncio.Queue[pb.UploadMediaRequest | None] = asyncio.Queue()
        self._queue.put_nowait(
            pb.UploadMediaRequest(metadata=pb.UploadMetadata(upload_id=upload_id, offset=offset))
        )
        self._receiving = asyncio.create_task(uploads.receive(self._stream()))

    async def send(self, letter: bytes) -> None:
        """Send a part of one letter."""
        self._queue.put_nowait(pb.UploadMediaRequest(chunk=letter * PART))
        await self.taken()

    async def taken(self) -> None:
        """Wait until what was sent has been dealt with, or the call is over."""
        dealt_with = asyncio.create_task(self._queue.join())
        await asyncio.wait({dealt_with, self._receiving}, return_when=asyncio.FIRST_COMPLETED)
        dealt_with.cancel()

    async def end(self) -> pb.Upload | DomainError:
        """Send no more; returns the answer or the refusal."""
        self._queue.put_nowait(None)
        try:
            return await self._receiving
        except DomainError as refused:
            return refused

    async def _stream(self) -> AsyncIterator[pb.UploadMediaRequest]:
        while (request := await self._queue.get()) is not None:
            yield request
            self._queue.task_done()


@dataclass(frozen=True)
class State:
    """What is committed of an upload."""

    size_bytes: int
    sha1: str
    content: bytes


class Machine:
    """An upload to several servers, and the calls that are open."""

    def __init__(self, bed: Bed, database: Database) -> None:
        self._bed, self._database = bed, database
        self._servers = [Uploads(database, bed.store, part_bytes=PART) for _ in range(SERVERS)]
        self._calls: list[Call] = []
        self._id: UUID = uuid7()

    async def begin(self, announced: str) -> None:
        """Begin the upload."""
        values = {"size_bytes": len(RIGHT), "file_name": "a.mp4", "expected_sha1": announced}
        async with self._database.begin() as session:
            await repository_upload.create(session, self._id, values)

    async def step(self, what: str, which: int) -> None:
        """Open a call at a server, send a part by one of the open calls, or end one."""
        if what == "open":
            call = Call(self._servers[which % SERVERS], str(self._id), (await self.state()).size_bytes)
            self._calls.append(call)
            await call.taken()
        elif self._calls and what == "end":
            await self._end(self._calls.pop(which % len(self._calls)))
        elif self._calls:
            await self._calls[which % len(self._calls)].send(what.encode())

    async def end_all(self) -> None:
        """End the calls that are open."""
        while self._calls:
            await self._end(self._calls.pop())

    async def _end(self, call: Call) -> None:
        before = await self.state()
        answer = await call.end()
        after = await self.state()
        if after.sha1:
            assert after.content == (before.content if before.size_bytes == len(RIGHT) else after.content)
            assert after.sha1 == sha1_of(after.content)
        if isinstance(answer, Sha1Mismatch):
            assert before.content != RIGHT, "what was announced came, and was refused"

    async def state(self) -> State:
        """Read what is committed, and the bytes themselves."""
        async with self._database.begin() as session:
            row = await repository_upload.get(session, self._id)
            keys = await repository_upload.part_keys(session, self._id)
        named = [row.media_key] if row.sha1 else keys
        content = b"".join([await self._bed.store.get_bytes(key) for key in named])
        assert len(content) == row.committed_bytes
        return State(row.committed_bytes, row.sha1, content)


steps = st.tuples(st.sampled_from(["open", "open", "r", "r", "r", "w", "end"]), st.integers(0, 3))
OVERTAKEN = [
    # two wrong parts at one server, where another call stands behind them
    *[("open", 0), ("w", 0), ("w", 0), ("open", 0)],
    # the other server ends it as wrong, and takes as much that is right
    *[("open", 1), ("w", 2), ("end", 2), ("open", 1), ("r", 2), ("r", 2)],
    *[("r", 1), ("end", 1)],
]


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(announced=st.sampled_from(["", sha1_of(RIGHT)]), steps=st.lists(steps, min_size=5, max_size=18))
@example(announced=sha1_of(RIGHT), steps=OVERTAKEN)
async def test_an_upload_ends_with_the_hash_of_what_is_stored_and_what_was_announced_is_never_refused(
    bed: Bed, database: Database, announced: str, steps: list[tuple[str, int]]
) -> None:
    machine = Machine(bed, database)
    await machine.begin(announced)
    for what, which in steps:
        await machine.step(what, which)
    await machine.end_all()
