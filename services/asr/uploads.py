"""Take uploads: chunks become parts in the object store, so that any instance can go on from there.

An upload is hashed while it comes in. Only a server that takes one over from another (after a restart, say)
doesn't know what the parts before hash to; it hashes the whole while it joins the parts.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

from frontrow.asr.v1 import live_material_service_pb2 as pb
from sqlalchemy import Row

from libs.common.db import Database
from libs.common.errors import InvalidArgument
from libs.common.ids import uuid7
from libs.common.objects import ObjectMissing, ObjectStore
from libs.common.tracing import present_trace
from services.asr import convert, repository_material, repository_upload
from services.asr.errors import ObjectLost, OffsetMismatch, Sha1Mismatch, UploadOverrun
from services.asr.upload_prefixes import Prefix, Prefixes


class Uploads:
    """Receives upload streams, part by part."""

    def __init__(self, database: Database, store: ObjectStore, *, part_bytes: int) -> None:
        """`part_bytes` is how much is held in memory before it becomes a stored part."""
        self._database = database
        self._store = store
        self._part_bytes = part_bytes
        self._prefixes = Prefixes()

    async def receive(self, requests: AsyncIterator[pb.UploadMediaRequest]) -> pb.Upload:
        """Take one call's chunks and return what is committed after it.

        Raises:
            UploadNotFound, OffsetMismatch, UploadOverrun, Sha1Mismatch, InvalidArgument.
        """
        upload_id, size_bytes, prefix = await self._open(await _first(requests))
        held = bytearray()
        async for request in requests:
            if request.WhichOneof("item") != "chunk":
                raise InvalidArgument.of_field("metadata", "must come once, in the first message")
            held += request.chunk
            if prefix.size_bytes + len(held) > size_bytes:
                raise UploadOverrun(
                    f"more than the announced {size_bytes} bytes came; begin a new upload with the right size"
                )
            if len(held) >= self._part_bytes:
                prefix = await self._store_part(upload_id, prefix, bytes(held))
                held.clear()
        if held:
            await self._store_part(upload_id, prefix, bytes(held))
        return await self._close(upload_id)

    async def _open(self, metadata: pb.UploadMetadata) -> tuple[UUID, int, Prefix]:
        """Begin or find the upload; returns its id, whole size and what this call's chunks follow."""
        if metadata.upload_id:
            upload_id = convert.parse_id(metadata.upload_id, "metadata.upload_id")
            async with self._database.begin() as session:
                row = await repository_upload.get(session, upload_id)
                keys = await repository_upload.part_keys(session, upload_id)
            if row.source_url:
                raise InvalidArgument.of_field("metadata.upload_id", "is fetched from the web, not uploaded")
            if metadata.offset != row.committed_bytes:
                raise _mismatch(metadata.offset, row.committed_bytes)
            # if a part comes between the two reads, ours has no place any more
            return upload_id, row.size_bytes, self._prefixes.find(keys, row.committed_bytes)
        for field in ("size_bytes", "file_name"):
            if not getattr(metadata, field):
                raise InvalidArgument.of_field(f"metadata.{field}", "is needed for a new upload")
        if metadata.offset:
            raise InvalidArgument.of_field("metadata.offset", "must be 0 for a new upload")
        upload_id = uuid7()
        values = {
            "size_bytes": metadata.size_bytes,
            "file_name": metadata.file_name,
            "expected_sha1": metadata.sha1,
            "trace_parent": present_trace(),
        }
        async with self._database.begin() as session:
            await repository_upload.create(session, upload_id, values)
        return upload_id, metadata.size_bytes, self._prefixes.find((), 0)

    async def _store_part(self, upload_id: UUID, prefix: Prefix, data: bytes) -> Prefix:
        """Store a part and commit it; returns the prefix with it.

        The key has a random end: of two calls that send the same part, the loser can't touch what the winner
        stored.
        """
        offset = prefix.size_bytes
        key = f"uploads/{upload_id}/{offset:015d}-{uuid4().hex[:12]}"
        longer, _ = await asyncio.gather(
            asyncio.to_thread(prefix.followed_by, key, data), self._store.put_bytes(key, data)
        )
        async with self._database.begin() as session:
            appended = await repository_upload.commit_part(
                session, upload_id, offset=offset, size_bytes=len(data), key=key
            )
            if not appended:
                # read in the same transaction, so that the answer is what beat us
                row = await repository_upload.get(session, upload_id)
        if not appended:
            await self._store.delete(key)
            raise _mismatch(offset, row.committed_bytes)
        self._prefixes.lengthened(prefix, longer)
        return longer

    async def _close(self, upload_id: UUID) -> pb.Upload:
        """Join the parts when all are there; returns the upload's state."""
        async with self._database.begin() as session:
            # locked: row and parts of one moment; without, another call's finish may come between the two
            row = await repository_upload.get(session, upload_id, for_update=True)
            keys = await repository_upload.part_keys(session, upload_id)
        if row.committed_bytes < row.size_bytes or row.sha1:
            return convert.upload_message(row)
        whole = self._prefixes.find(keys, row.size_bytes)
        # named by its parts: a call that is slow to join others can't put them over what was sent after them
        media_key = f"recordings/{upload_id}/original-{whole.name}"
        sha1 = whole.sha1
        if not sha1 or _as_announced(row, sha1):
            try:
                sha1 = await self._join(upload_id, whole, media_key)
            except ObjectMissing:
                return await self._ended_meanwhile(upload_id)
        async with self._database.begin() as session:
            row = await repository_upload.get(session, upload_id, for_update=True)
            if row.sha1 or await repository_upload.part_keys(session, upload_id) != keys:
                return convert.upload_message(row)  # another call was quicker, to either end
            right = _as_announced(row, sha1)
            if right:
                await repository_upload.finish(session, upload_id, sha1=sha1, media_key=media_key)
            else:
                await repository_upload.start_over(session, upload_id)
            unwanted = [f"uploads/{upload_id}/"] if right else [*keys, media_key]
            await repository_material.doom(session, unwanted)
            row = await repository_upload.get(session, upload_id)
        if not right:
            raise Sha1Mismatch(
                "the stored bytes don't hash to what was announced; send all again from offset 0",
                sha1=sha1,
                upload_id=str(upload_id),
            )
        return convert.upload_message(row)

    async def _ended_meanwhile(self, upload_id: UUID) -> pb.Upload:
        """Return the state of an upload whose parts went away while they were joined.

        Raises:
            UploadNotFound: it was removed.
            ObjectLost: nobody ended it, so the store lost a part.
        """
        async with self._database.begin() as session:
            row = await repository_upload.get(session, upload_id)
        if not row.sha1 and row.committed_bytes == row.size_bytes:
            raise _lost(upload_id)
        return convert.upload_message(row)

    async def _join(self, upload_id: UUID, whole: Prefix, media_key: str) -> str:
        """Store the parts as one object; returns its SHA-1, hashed on the way where it isn't known yet.

        Raises:
            ObjectMissing: a part is gone.
            ObjectLost: the parts hold less or more than was sent.
        """
        digest = None if whole.digest else hashlib.sha1(usedforsecurity=False)

        async def chunks() -> AsyncIterator[bytes]:
            for key in whole.keys:
                async for chunk in self._store.stream(key):
                    if digest is not None:
                        digest.update(chunk)
                    yield chunk

        size_bytes = await self._store.put_stream(media_key, chunks())
        if size_bytes != whole.size_bytes:
            raise _lost(upload_id)
        return whole.sha1 if digest is None else digest.hexdigest()


async def _first(requests: AsyncIterator[pb.UploadMediaRequest]) -> pb.UploadMetadata:
    async for request in requests:
        if request.WhichOneof("item") == "metadata":
            return request.metadata
        break
    raise InvalidArgument.of_field("metadata", "must be the first message of the stream")


def _as_announced(row: Row[Any], sha1: str) -> bool:
    return row.expected_sha1 in {"", sha1}


def _lost(upload_id: UUID) -> ObjectLost:
    return ObjectLost("the store lost a part of this upload; begin a new one", upload_id=str(upload_id))


def _mismatch(offset: int, committed_bytes: int) -> OffsetMismatch:
    return OffsetMismatch(
        f"the chunks begin at {offset}, but {committed_bytes} bytes are committed; resume from there",
        committed_bytes=str(committed_bytes),
    )
