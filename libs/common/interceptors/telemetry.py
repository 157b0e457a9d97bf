"""Trace and count every served call.

Written against OpenTelemetry's API rather than with its gRPC instrumentation: that one ends streams without
closing the handler's generator, swallows a cancelled client call, and records no metrics.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import grpc
from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from libs.common.interceptors.call import Serve, ServedCall, Step
from libs.common.telemetry import Telemetry

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

    names = tuple(propagate.get_global_textmap().fields)

    def step(proceed: Serve) -> Serve:
        async def serve(call: ServedCall) -> Any:
            began = time.monotonic()
            span = telemetry.tracer.start_span(
                call.method.lstrip("/"),
                context=_trace_of(call, names),
                kind=SpanKind.SERVER,
                attributes=method_attributes(call.method),
            )
            token = context.attach(trace.set_span_in_context(span))
            try:
                return await proceed(call)
            finally:
                context.detach(token)
                close_span(span, call.code, is_error=call.code in _OUR_FAULT)
                telemetry.record("server", call.method, call.code.name, time.monotonic() - began)

        return serve

    return step


@cache
def method_attributes(method: str) -> dict[str, str]:
    """Return the attributes that name a method on a span."""
    service, _, name = method.lstrip("/").partition("/")
    return {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}


def close_span(span: Span, code: grpc.StatusCode, *, is_error: bool) -> None:
    """Put the status code on a span and end it."""
    if span.is_recording():
        span.set_attribute("rpc.grpc.status_code", code.value[0])
        if is_error:
            span.set_status(Status(StatusCode.ERROR, code.name))
    span.end()


def _trace_of(call: ServedCall, names: Sequence[str]) -> Context:
    """Return the trace that the caller's metadata tells under these names, or none."""
    carrier = {name: value for name in names if (value := call.metadata(name)) is not None}
    return propagate.extract(carrier, Context()) if carrier else Context()
