"""Carry a trace over what isn't a call: a row that is sent later, a decision that somebody takes days after.

A trace is written as W3C `traceparent`, empty where there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PROPAGATOR = TraceContextTextMapPropagator()
_KEY = "traceparent"


def present_trace() -> str:
    """Return the trace of what runs now, empty when there is none."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier.get(_KEY, "")


@contextmanager
def continuing(trace_parent: str) -> Iterator[None]:
    """Let what the block does belong to the trace that was written down; to no trace when it is empty."""
    token = context.attach(_read(trace_parent))
    try:
        yield
    finally:
        context.detach(token)


def link_to(trace_parent: str) -> None:
    """Let the span that runs now point at the trace that led to it, when that was written down.

    For an act of its own, of a person mostly: it is no part of that trace, but follows from it.
    """
    linked = trace.get_current_span(_read(trace_parent)).get_span_context()
    if linked.is_valid:
        trace.get_current_span().add_link(linked)


def _read(trace_parent: str) -> Context:
    return _PROPAGATOR.extract({_KEY: trace_parent} if trace_parent else {}, Context())
