"""Describe one served call while it runs; the steps around a handler share it."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grpc

ServicerContext: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class Shape(enum.Enum):
    """Say which sides of a method are streams."""

    UNARY_UNARY = "unary_unary"
    UNARY_STREAM = "unary_stream"
    STREAM_UNARY = "stream_unary"
    STREAM_STREAM = "stream_stream"

    @property
    def request_streaming(self) -> bool:
        """Tell whether the client sends a stream."""
        return self in {Shape.STREAM_UNARY, Shape.STREAM_STREAM}

    @property
    def response_streaming(self) -> bool:
        """Tell whether the server answers with a stream."""
        return self in {Shape.UNARY_STREAM, Shape.STREAM_STREAM}


@dataclass(slots=True)
class ServedCall:
    """Carry what the steps need to know about the call they surround.

    `method` is the full name, `/package.Service/Method`; `request` is the message, or the stream of messages,
    as it came. `code` is what the client is told; the error step sets it, the telemetry step reads it.
    """

    method: str
    shape: Shape
    context: ServicerContext
    request: Any = None
    code: grpc.StatusCode = grpc.StatusCode.OK
    _metadata: dict[str, str | bytes] | None = field(default=None, repr=False)

    def metadata(self, key: str) -> str | None:
        """Return the first value of a metadata key of the request, None when absent."""
        if self._metadata is None:
            self._metadata = dict(reversed(tuple(self.context.invocation_metadata() or ())))
        value = self._metadata.get(key)
        return value.decode("latin-1") if isinstance(value, bytes) else value

    def says_twice(self, key: str) -> bool:
        """Tell whether the request's metadata has more than one value of a key."""
        return sum(name == key for name, _ in self.context.invocation_metadata() or ()) > 1


Serve = Callable[[ServedCall], Awaitable[Any]]
"""Serve a call to its end; what it returns is the answer of a unary method."""

Step = Callable[[Serve], Serve]
"""One concern around a handler: given what follows, return what surrounds it. Applied once a method."""
