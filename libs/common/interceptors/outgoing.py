"""Prepare and observe every outgoing call: deadline, actor, trace context, span, counters.

grpc.aio takes one class per shape of method. Unary answers are awaited here, inside the interceptor: one that
returns early loses the cancellation of the caller. Streams are left alone and observed when they end;
awaiting a client stream here would lock up a caller that writes its requests by hand.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
from opentelemetry import propagate, trace
from opentelemetry.trace import Span, SpanKind

from libs.common import deadline
from libs.common.interceptors.context import ACTOR_KEY, current_actor, encode_actor
from libs.common.interceptors.sojourn import timeout_metadata
from libs.common.interceptors.telemetry import close_span, method_attributes
from libs.common.telemetry import Telemetry

Details = grpc.aio.ClientCallDetails
Continuation = Callable[[Details, Any], Any]


@dataclass(frozen=True)
class Outgoing:
    """Prepare calls for all four interceptors of a channel. `actor` is used where no caller is known."""

    telemetry: Telemetry
    actor: str = ""

    def interceptors(self) -> list[grpc.aio.ClientInterceptor]:
        """Return one interceptor per shape."""
        return [_UnaryUnary(self), _UnaryStream(self), _StreamUnary(self), _StreamStream(self)]

    def begin(self, details: Details, *, cap_seconds: float | None) -> _Begun:
        """Start the span of a call and return its completed details."""
        method = details.method.decode() if isinstance(details.method, bytes) else details.method
        span = self.telemetry.tracer.start_span(
            method.lstrip("/"), kind=SpanKind.CLIENT, attributes=method_attributes(method)
        )
        metadata = grpc.aio.Metadata(*(details.metadata or ()))
        actor = current_actor() or self.actor
        if actor and metadata.get(ACTOR_KEY) is None:
            metadata.add(ACTOR_KEY, encode_actor(actor))
        carrier: dict[str, str] = {}
        propagate.inject(carrier, context=trace.set_span_in_context(span))
        for key, value in carrier.items():
            if value:
                metadata.add(key, value)
        timeout = deadline.nested_timeout(details.timeout, cap_seconds=cap_seconds)
        if timeout is not None:
            metadata.add(*timeout_metadata(timeout))
        prepared = grpc.aio.ClientCallDetails(
            details.method, timeout, metadata, details.credentials, details.wait_for_ready
        )
        return _Begun(self.telemetry, method, span, time.monotonic(), prepared)


@dataclass(frozen=True)
class _Begun:
    telemetry: Telemetry
    method: str
    span: Span
    began: float
    details: Details

    def end(self, code: grpc.StatusCode) -> None:
        close_span(self.span, code, is_error=code is not grpc.StatusCode.OK)
        self.telemetry.record("client", self.method, code.name, time.monotonic() - self.began)

    def end_with(self, call: Any) -> Any:
        """End when `call` does; return it untouched."""
        call.add_done_callback(self._on_done)
        return call

    def _on_done(self, call: Any) -> None:
        # The code of a finished call is ready, yet only a coroutine tells it: one step is enough.
        asking = call.code()
        try:
            asking.send(None)
        except StopIteration as told:
            self.end(told.value)
        else:
            asking.close()
            self.end(grpc.StatusCode.UNKNOWN)


@dataclass(frozen=True)
class _UnaryUnary(grpc.aio.UnaryUnaryClientInterceptor):
    outgoing: Outgoing

    async def intercept_unary_unary(
        self, continuation: Continuation, client_call_details: Details, request: Any
    ) -> Any:
        begun = self.outgoing.begin(client_call_details, cap_seconds=deadline.DEFAULT_CAP_SECONDS)
        code = grpc.StatusCode.UNKNOWN
        try:
            call = await continuation(begun.details, request)
            await call
            code = grpc.StatusCode.OK
        except grpc.aio.AioRpcError as error:
            code = error.code()
            raise
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED
            raise
        finally:
            begun.end(code)
        return call


@dataclass(frozen=True)
class _UnaryStream(grpc.aio.UnaryStreamClientInterceptor):
    outgoing: Outgoing

    async def intercept_unary_stream(
        self, continuation: Continuation, client_call_details: Details, request: Any
    ) -> Any:
        begun = self.outgoing.begin(client_call_details, cap_seconds=None)
        return begun.end_with(await continuation(begun.details, request))


@dataclass(frozen=True)
class _StreamUnary(grpc.aio.StreamUnaryClientInterceptor):
    outgoing: Outgoing

    async def intercept_stream_unary(
        self, continuation: Continuation, client_call_details: Details, request_iterator: Any
    ) -> Any:
        begun = self.outgoing.begin(client_call_details, cap_seconds=None)
        return begun.end_with(await continuation(begun.details, request_iterator))


@dataclass(frozen=True)
class _StreamStream(grpc.aio.StreamStreamClientInterceptor):
    outgoing: Outgoing

    async def intercept_stream_stream(
        self, continuation: Continuation, client_call_details: Details, request_iterator: Any
    ) -> Any:
        begun = self.outgoing.begin(client_call_details, cap_seconds=None)
        return begun.end_with(await continuation(begun.details, request_iterator))
