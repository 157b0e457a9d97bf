"""Streams that a client sends: bounded, since all of one is held until its end."""

from collections.abc import AsyncIterator
from typing import TypeVar

from google.protobuf.message import Message

from libs.common.errors import InvalidArgument

M = TypeVar("M", bound=Message)

# A chunk of an hour with every word's times is a tenth of that.
PART_BYTES = 16 << 20
# A day of speech with every word's times.
RESULT_BYTES = 128 << 20


async def bounded(requests: AsyncIterator[M], limit_bytes: int) -> AsyncIterator[M]:
    """Yield a stream's messages.

    Raises:
        InvalidArgument: they are more than `limit_bytes` together.
    """
    total = 0
    async for request in requests:
        total += request.ByteSize()
        if total > limit_bytes:
            raise InvalidArgument(f"the stream is longer than {limit_bytes} bytes; send a smaller one")
        yield request
