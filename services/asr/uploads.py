"""Take uploads: chunks become parts in the object store, so that any instance can go on from there."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from uuid import UUID, uuid4

from frontrow.asr.v1 import live_material_service_pb2 as pb

from libs.common.db import Database
from libs.common.errors import InvalidArgument
from libs.common.ids import uuid7
from libs.common.objects import ObjectMissing, ObjectStore
from libs.common.tracing import present_trace
from services.asr import convert, repository_material, repository_upload
from services.asr.errors import ObjectLost, OffsetMismatch, Sha1Mismatch, UploadOverrun


class Uploads:
    """Receives upload streams, part by part."""

    def __init__(self, database: Database, store: ObjectStore, *, part_bytes: int) -> None:
        """`part_bytes` is how much is held in memory before it becomes a stored part."""
        self._database = database
        self._store = store
        self._part_bytes = part_bytes

    async def receive(self, requests: AsyncIterator[pb.UploadMediaRequest]) -> pb.Upload:
        """Take one call's chunks and return what is committed after it.

        Raises:
            UploadNotFound, OffsetMismatch, UploadOverrun, Sha1Mismatch, InvalidArgument.
        """
        upload_id, size_bytes, offset = await self._open(await _first(requests))
        held = bytearray()
        async for request in requests:
            if request.WhichOneof("item") != "chunk":
                raise InvalidArgument.of_field("metadata", "must come once, in the first message")
            held += request.chunk
            if offset + len(held) > size_bytes:
                raise UploadOverrun(
                    f"more than the announced {size_bytes} bytes came; begin a new upload with the right size"
                )
            if len(held) >= self._part_bytes:
                offset = await self._store_part(upload_id, offset, bytes(held))
                held.clear()
        if held:
            offset = await self._store_part(upload_id, offset, bytes(held))
        return await self._close(upload_id)

    async def _open(self, metadata: pb.UploadMetadata) -> tuple[UUID, int, int]:
        """Begin or find the upload; returns its id, whole size and where this call's chunks go."""
        if metadata.upload_id:
            upload_id = convert.parse_id(metadata.upload_id, "metadata.upload_id")
            async with self._database.begin() as session:
                row = await repository_upload.get(session, upload_id)
            if row.source_url:
                raise InvalidArgument.of_field("metadata.upload_id", "is fetched from the web, not uploaded")
            if metadata.offset != row.committed_bytes:
                raise _mismatch(metadata.offset, row.committed_bytes)
            return upload_id, row.size_bytes, row.committed_bytes
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
        return upload_id, metadata.size_bytes, 0

    async def _store_part(self, upload_id: UUID, offset: int, data: bytes) -> int:
        """Store a part and commit it; returns the new offset.

        The key has a random end: of two calls that send the same part, the loser can't touch what the winner
        stored.
        """
        key = f"uploads/{upload_id}/{offset:015d}-{uuid4().hex[:12]}"
        await self._store.put_bytes(key, data)
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
        return offset + len(data)

    async def _close(self, upload_id: UUID) -> pb.Upload:
        """Join the parts when all are there; returns the upload's state."""
        async with self._database.begin() as session:
            # locked: row and parts of one moment; without, another call's finish may come between the two
            row = await repository_upload.get(session, upload_id, for_update=True)
            keys = await repository_upload.part_keys(session, upload_id)
        if row.committed_bytes < row.size_bytes or row.sha1:
            return convert.upload_message(row)
        # named by its parts: a call that is slow to join others can't put them over what was sent after them
        name = hashlib.sha1("\n".join(keys).encode(), usedforsecurity=False).hexdigest()
        media_key = f"recordings/{upload_id}/original-{name}"
        digest = hashlib.sha1(usedforsecurity=False)
        try:
            await self._store.put_stream(media_key, self._joined(keys, digest))
        except ObjectMissing:
            return await self._ended_meanwhile(upload_id)
        sha1 = digest.hexdigest()
        async with self._database.begin() as session:
            row = await repository_upload.get(session, upload_id, for_update=True)
            if row.sha1 or await repository_upload.part_keys(session, upload_id) != keys:
                return convert.upload_message(row)  # another call was quicker, to either end
            right = row.expected_sha1 in {"", sha1}
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
            raise ObjectLost(
                "the store lost a part of this upload; begin a new one", upload_id=str(upload_id)
            )
        return convert.upload_message(row)

    async def _joined(self, keys: Sequence[str], digest: "hashlib._Hash") -> AsyncIterator[bytes]:
        for key in keys:
            async for chunk in self._store.stream(key):
                digest.update(chunk)
                yield chunk


async def _first(requests: AsyncIterator[pb.UploadMediaRequest]) -> pb.UploadMetadata:
    async for request in requests:
        if request.WhichOneof("item") == "metadata":
            return request.metadata
        break
    raise InvalidArgument.of_field("metadata", "must be the first message of the stream")


def _mismatch(offset: int, committed_bytes: int) -> OffsetMismatch:
    return OffsetMismatch(
        f"the chunks begin at {offset}, but {committed_bytes} bytes are committed; resume from there",
        committed_bytes=str(committed_bytes),
    )
