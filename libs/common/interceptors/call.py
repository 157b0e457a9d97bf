"""Describe one served call while it runs; the steps around a handler share it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
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


@dataclass
class ServedCall:
    """Carry what the steps need to know about the call they surround.

    `method` is the full name, `/package.Service/Method`. `code` is what the client is told; the error step
    sets it, the telemetry step reads it.
    """

    method: str
    shape: Shape
    context: ServicerContext
    code: grpc.StatusCode = field(default=grpc.StatusCode.OK)

    def metadata(self, key: str) -> str | None:
        """Return the first value of a metadata key of the request, None when absent."""
        for name, value in self.context.invocation_metadata() or ():
            if name == key:
                return value if isinstance(value, str) else value.decode("latin-1")
        return None


Step = Callable[[ServedCall], AbstractAsyncContextManager[None]]
"""One concern around a handler: entered before it, left after it, seeing what it raised."""
