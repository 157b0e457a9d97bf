"""Streams that a client sends are bounded."""

from collections.abc import AsyncIterator

import pytest
from frontrow.asr.v1 import transcription_service_pb2 as pb

from libs.common.errors import InvalidArgument
from services.asr.streams import bounded


async def messages(count: int) -> AsyncIterator[pb.FailTranscriptionRequest]:
    for _ in range(count):
        yield pb.FailTranscriptionRequest(message="x" * 98)


async def test_a_stream_within_its_limit_passes_whole() -> None:
    assert len([message async for message in bounded(messages(10), 1000)]) == 10


async def test_a_stream_beyond_its_limit_is_refused_before_its_end() -> None:
    stream = bounded(messages(1_000_000), 1000)
    for _ in range(10):
        await anext(stream)
    with pytest.raises(InvalidArgument, match="longer than 1000 bytes"):
        await anext(stream)
