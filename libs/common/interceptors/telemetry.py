"""Trace and count every served call.

Written against OpenTelemetry's API rather than with its gRPC instrumentation: that one ends streams without
closing the handler's generator, swallows a cancelled client call, and records no metrics.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import grpc
import structlog
from opentelemetry import propagate, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from libs.common.interceptors.call import ServedCall, Step
from libs.common.telemetry import Telemetry

log = structlog.get_logger(__name__)

_OUR_FAULT = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)


def observing(telemetry: Telemetry) -> Step:
    """Return the step that reports to `telemetry`."""

    def step(call: ServedCall) -> AbstractAsyncContextManager[None]:
        return _observed(call, telemetry)

    return step


def method_attributes(method: str) -> dict[str, str]:
    """Return the attributes that name a method on a span."""
    service, _, name = method.lstrip("/").partition("/")
    return {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}


def close_span(span: Span, code: grpc.StatusCode, *, is_error: bool) -> None:
    """Put the status code on a span and end it."""
    span.set_attribute("rpc.grpc.status_code", code.value[0])
    if is_error:
        span.set_status(Status(StatusCode.ERROR, code.name))
    span.end()


@asynccontextmanager
async def _observed(call: ServedCall, telemetry: Telemetry) -> AsyncIterator[None]:
    began = time.monotonic()
    carrier = {
        name: value for name, value in call.context.invocation_metadata() or () if isinstance(value, str)
    }
    span = telemetry.tracer.start_span(
        call.method.lstrip("/"),
        context=propagate.extract(carrier),
        kind=SpanKind.SERVER,
        attributes=method_attributes(call.method),
    )
    try:
        with trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
            yield
    finally:
        close_span(span, call.code, is_error=call.code in _OUR_FAULT)
        telemetry.record("server", call.method, call.code.name, time.monotonic() - began)
