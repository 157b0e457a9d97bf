"""Uploads come in parts, survive broken calls and go on at any server."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from frontrow.asr.v1 import live_material_service_pb2 as pb
from sqlalchemy import select

from libs.common.client import error_info
from libs.common.db import Database
from libs.common.ids import uuid7
from libs.common.settings import StoreSettings
from libs.common.testing import eventually
from services.asr import repository_upload
from services.asr.models import uploads
from services.asr.mount import mount
from services.asr.uploads import Uploads
from tests.conftest import Serve
from tests.integration.asr.bed import Bed, messages, refusal, sha1_of
from tests.integration.asr.conftest import ASR

PART = ASR.upload_part_bytes


async def committed(bed: Bed, upload_id: str) -> int:
    return (await bed.materials.GetUpload(pb.GetUploadRequest(upload_id=upload_id))).upload.committed_bytes


async def stored(bed: Bed, upload_id: str) -> bytes:
    [key] = [key async for key in bed.store.list(f"recordings/{upload_id}")]
    return await bed.store.get_bytes(key)


async def broken_upload(bed: Bed, database: Database, content: bytes, *, sent: int) -> str:
    """Send the first `sent` bytes and hang up; returns the upload's id."""
    sent_all = asyncio.Event()

    async def stream() -> AsyncIterator[pb.UploadMediaRequest]:
        count = 0
        async for message in messages(content, chunk=10_000):
            if message.WhichOneof("item") == "metadata":
                yield message
                continue
            chunk = message.chunk[: sent - count]
            count += len(chunk)
            yield pb.UploadMediaRequest(chunk=chunk)
            if count >= sent:
                sent_all.set()
                await asyncio.Event().wait()

    before = await _ids(database)
    call = bed.materials.UploadMedia(stream())
    await sent_all.wait()
    (upload_id,) = await eventually(lambda: _new(database, before))
    expected = sent // PART * PART if sent >= PART else 0
    # parts are cut at chunk borders at or after the part size, so at least all but one part's worth is there
    await eventually(lambda: _at_least(bed, upload_id, max(0, expected - PART)))
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    return upload_id


async def _at_least(bed: Bed, upload_id: str, count: int) -> bool:
    return await committed(bed, upload_id) >= count


async def _ids(database: Database) -> set[str]:
    async with database.begin() as session:
        return {str(found) for found in (await session.execute(select(uploads.c.id))).scalars()}


async def _new(database: Database, before: set[str]) -> set[str]:
    return await _ids(database) - before


async def test_an_upload_is_stored_byte_for_byte_with_its_hash(bed: Bed) -> None:
    content = os.urandom(3 * PART + 17)
    answer = await bed.materials.UploadMedia(messages(content, chunk=50_000))
    assert (answer.upload.sha1, answer.upload.committed_bytes) == (sha1_of(content), len(content))
    assert answer.upload.file_name == "录播.mp4"
    assert await stored(bed, answer.upload.upload_id) == content


async def test_a_broken_upload_goes_on_from_what_is_committed_at_another_server(
    bed: Bed, database: Database, serve: Serve
) -> None:
    content = os.urandom(6 * PART)
    upload_id = await broken_upload(bed, database, content, sent=4 * PART)
    other = Bed.over(bed.common, await serve("asr", await mount(ASR, bed.common)))
    offset = await committed(other, upload_id)
    assert 0 < offset < len(content)
    answer = await other.materials.UploadMedia(messages(content, upload_id=upload_id, offset=offset))
    assert (answer.upload.finished, answer.upload.sha1) == (True, sha1_of(content))
    assert await stored(bed, upload_id) == content
    await other.close()


async def test_a_call_that_ends_early_keeps_what_it_brought(bed: Bed) -> None:
    content = os.urandom(2 * PART)

    async def half() -> AsyncIterator[pb.UploadMediaRequest]:
        async for message in messages(content, chunk=1000):
            if message.WhichOneof("item") == "chunk":
                yield pb.UploadMediaRequest(chunk=message.chunk[:999])
                return
            yield message

    answer = await bed.materials.UploadMedia(half())
    assert (answer.upload.committed_bytes, answer.upload.finished) == (999, False)
    upload_id = answer.upload.upload_id
    name = f"half {upload_id}"
    create = pb.CreateLiveMaterialRequest(name=name, upload_id=upload_id)
    code, reason = await refusal(bed.materials.CreateLiveMaterial(create))
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "UPLOAD_INCOMPLETE")


async def test_chunks_that_begin_elsewhere_are_refused_with_the_right_offset(bed: Bed) -> None:
    content = os.urandom(1000)
    upload_id = await bed.upload(content)
    call = bed.materials.UploadMedia(messages(content, upload_id=upload_id, offset=10))
    try:
        await call
        raise AssertionError("must be refused")
    except grpc.aio.AioRpcError as error:
        told = error_info(error)
    assert told is not None
    assert (told.reason, told.metadata["committed_bytes"]) == ("OFFSET_MISMATCH", "1000")


async def test_of_two_calls_that_go_on_at_once_one_wins_and_the_bytes_are_right(
    bed: Bed, database: Database
) -> None:
    content = os.urandom(5 * PART)
    upload_id = await broken_upload(bed, database, content, sent=2 * PART)
    offset = await committed(bed, upload_id)
    calls = [
        bed.materials.UploadMedia(messages(content, upload_id=upload_id, offset=offset, chunk=20_000))
        for _ in range(2)
    ]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(outcome, BaseException) for outcome in outcomes) <= 1
    assert await stored(bed, upload_id) == content


async def all_parts_stored_but_not_joined(bed: Bed, database: Database, content: bytes) -> str:
    """Leave an upload as a server does that dies before it joins the parts; returns its id."""
    upload_id = uuid7()
    values = {"size_bytes": len(content), "file_name": "a.mp4", "expected_sha1": ""}
    async with database.begin() as session:
        await repository_upload.create(session, upload_id, values)
    for offset in range(0, len(content), PART):
        part, key = content[offset : offset + PART], f"uploads/{upload_id}/{offset:015d}-part"
        await bed.store.put_bytes(key, part)
        async with database.begin() as session:
            await repository_upload.commit_part(
                session, upload_id, offset=offset, size_bytes=len(part), key=key
            )
    return str(upload_id)


async def test_calls_that_join_the_same_parts_at_once_all_tell_the_whole_and_its_hash(
    bed: Bed, database: Database
) -> None:
    for _ in range(12):
        content = os.urandom(3 * PART)
        upload_id = await all_parts_stored_but_not_joined(bed, database, content)

        def close(upload_id: str = upload_id, content: bytes = content) -> Awaitable[pb.UploadMediaResponse]:
            return bed.materials.UploadMedia(messages(content, upload_id=upload_id, offset=len(content)))

        answers = await asyncio.gather(*(close() for _ in range(8)))
        assert {answer.upload.sha1 for answer in answers} == {sha1_of(content)}
        assert await stored(bed, upload_id) == content


async def test_a_call_whose_parts_another_has_joined_and_removed_is_told_the_end(
    bed: Bed, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(2 * PART)
    upload_id = await all_parts_stored_but_not_joined(bed, database, content)
    slow = Uploads(database, bed.store, part_bytes=PART)
    put_stream = bed.store.put_stream

    async def put_late(key: str, chunks: AsyncIterator[bytes]) -> int:
        monkeypatch.undo()
        await bed.materials.UploadMedia(messages(content, upload_id=upload_id, offset=len(content)))
        for part in [key async for key in bed.store.list(f"uploads/{upload_id}/")]:
            await bed.store.delete(part)
        return await put_stream(key, chunks)

    monkeypatch.setattr(bed.store, "put_stream", put_late)
    answer = await slow.receive(messages(content, upload_id=upload_id, offset=len(content)))
    assert answer.sha1 == sha1_of(content)
    assert await stored(bed, upload_id) == content


async def test_a_store_that_is_away_is_told_as_such_and_the_upload_goes_on(
    bed: Bed, serve: Serve, tmp_path: Path
) -> None:
    folder = tmp_path / "objects"
    folder.write_bytes(b"")
    common = replace(bed.common, store=StoreSettings(object_store=str(folder)))
    other = Bed.over(common, await serve("asr", await mount(ASR, common)))
    content = os.urandom(PART)
    code, reason = await refusal(other.materials.UploadMedia(messages(content)))
    assert (code, reason) == (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
    folder.unlink()
    assert await other.upload(content)
    await other.close()


async def test_more_bytes_than_announced_are_refused(bed: Bed) -> None:
    async def stream() -> AsyncIterator[pb.UploadMediaRequest]:
        yield pb.UploadMediaRequest(metadata=pb.UploadMetadata(size_bytes=10, file_name="a"))
        yield pb.UploadMediaRequest(chunk=b"x" * 11)

    assert (await refusal(bed.materials.UploadMedia(stream())))[1] == "UPLOAD_OVERRUN"


async def test_bytes_that_hash_to_something_else_are_refused_and_the_upload_starts_over(
    bed: Bed, database: Database
) -> None:
    content = os.urandom(PART + 5)
    before = await _ids(database)
    code, reason = await refusal(bed.materials.UploadMedia(messages(content, sha1="0" * 40)))
    assert (code, reason) == (grpc.StatusCode.DATA_LOSS, "SHA1_MISMATCH")
    (upload_id,) = await _new(database, before)
    assert await committed(bed, upload_id) == 0


async def test_the_parts_are_removed_once_they_are_joined(bed: Bed) -> None:
    upload_id = await bed.upload(os.urandom(2 * PART))

    async def gone() -> bool:
        return [key async for key in bed.store.list(f"uploads/{upload_id}/")] == []

    await eventually(gone)
    assert len(await stored(bed, upload_id)) == 2 * PART


async def test_a_stream_without_metadata_and_a_new_upload_without_a_size_are_refused(bed: Bed) -> None:
    async def no_metadata() -> AsyncIterator[pb.UploadMediaRequest]:
        yield pb.UploadMediaRequest(chunk=b"x")

    async def no_size() -> AsyncIterator[pb.UploadMediaRequest]:
        yield pb.UploadMediaRequest(metadata=pb.UploadMetadata(file_name="a"))

    for stream in (no_metadata(), no_size()):
        code, _ = await refusal(bed.materials.UploadMedia(stream))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
