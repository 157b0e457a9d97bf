"""Upload a recording in one stream that resumes where a broken one ended."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
from frontrow.asr.v1 import live_material_service_pb2, live_material_service_pb2_grpc

from libs.common.client import error_info

_CHUNK_BYTES = 1 << 18
_ATTEMPTS = 4
_FIRST_PAUSE_SECONDS = 0.5
_STREAM_SECONDS = 6 * 3600.0
_CALL_SECONDS = 20.0


async def upload_recording(
    channel: grpc.aio.Channel, path: Path, on_progress: Callable[[int], None] | None = None
) -> str:
    """Upload a file and return the id of the finished upload.

    ``on_progress`` gets the bytes sent so far. A connection that breaks is resumed from what the server has
    kept, up to four times in a row. Raises AioRpcError when that doesn't help or the server refuses.
    """
    stub = live_material_service_pb2_grpc.LiveMaterialServiceStub(channel)
    sha1 = await asyncio.to_thread(_sha1, path)
    size = (await asyncio.to_thread(path.stat)).st_size
    begin = live_material_service_pb2.UploadMetadata(size_bytes=size, file_name=path.name, sha1=sha1)
    # An upload begins with a message of its own, so that its id is known before anything can break.
    upload = (await stub.UploadMedia(_messages(begin, path, 0, None), timeout=_CALL_SECONDS)).upload
    failures = 0
    while not upload.finished:
        resume = live_material_service_pb2.UploadMetadata(
            upload_id=upload.upload_id, offset=upload.committed_bytes
        )
        try:
            messages = _messages(resume, path, size - upload.committed_bytes, on_progress)
            upload = (await stub.UploadMedia(messages, timeout=_STREAM_SECONDS)).upload
        except grpc.aio.AioRpcError as error:
            failures += 1
            if error_info(error).code != grpc.StatusCode.UNAVAILABLE or failures >= _ATTEMPTS:
                raise
            await asyncio.sleep(_FIRST_PAUSE_SECONDS * 2**failures)
            asked = live_material_service_pb2.GetUploadRequest(upload_id=upload.upload_id)
            upload = (await stub.GetUpload(asked, timeout=_CALL_SECONDS, wait_for_ready=True)).upload
    return upload.upload_id


async def _messages(
    metadata: live_material_service_pb2.UploadMetadata,
    path: Path,
    length: int,
    on_progress: Callable[[int], None] | None,
) -> AsyncIterator[live_material_service_pb2.UploadMediaRequest]:
    """Yield the metadata, then ``length`` bytes of the file from the metadata's offset on."""
    yield live_material_service_pb2.UploadMediaRequest(metadata=metadata)
    sent = metadata.offset
    with await asyncio.to_thread(path.open, "rb") as recording:
        recording.seek(sent)
        while length > 0 and (chunk := await asyncio.to_thread(recording.read, min(_CHUNK_BYTES, length))):
            yield live_material_service_pb2.UploadMediaRequest(chunk=chunk)
            length -= len(chunk)
            sent += len(chunk)
            if on_progress is not None:
                on_progress(sent)


def _sha1(path: Path) -> str:
    with path.open("rb") as recording:
        return hashlib.file_digest(recording, "sha1").hexdigest()
