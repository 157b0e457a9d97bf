"""Make the run of a handler a span that continues its creator's trace: create, claim, run.

OpenTelemetry's API is used where it is installed and the process has set a provider; else nothing is recorded
and nothing is missed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from frontrow.worker.outcomes import Failed, Outcome
from frontrow.worker.run import Run

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_SCOPE = "frontrow.worker"


class RunSpan:
    """The span around one handler, or a stand-in for it."""

    def __init__(self, span: Span | None = None) -> None:
        self._span = span

    def ended(self, outcome: Outcome) -> None:
        """Note how the run ended."""
        if self._span is None or not self._span.is_recording():
            return
        self._span.set_attribute("frontrow.run.outcome", type(outcome).__name__.lower())
        if isinstance(outcome, Failed):
            self._span.set_attribute("frontrow.run.retryable", outcome.retryable)
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, outcome.message[:200]))


class Spans:
    """Makes spans with the provider that the process has when the worker begins; none when it has none."""

    def __init__(self) -> None:
        self._tracer = None
        if AVAILABLE and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            self._tracer = trace.get_tracer(_SCOPE)

    def around(self, run: Run) -> AbstractContextManager[RunSpan]:
        """Let the block be the span `run <type>`, current in it, below a span `claim <type>`.

        The claim's span lasts from the moment the database handed the task out until now. A run that leaves
        by an exception, which only a cancelled one does, counts as interrupted.
        """
        return _NO_SPAN if self._tracer is None else _spanning(self._tracer, run)


_NO_SPAN = nullcontext(RunSpan())


@contextmanager
def _spanning(tracer: trace.Tracer, run: Run) -> Iterator[RunSpan]:
    handed_over = trace.set_span_in_context(_claim_span(tracer, run))
    with tracer.start_as_current_span(f"run {run.task.type}", handed_over, attributes=_facts(run)) as span:
        told = RunSpan(span)
        try:
            yield told
        except BaseException:
            span.set_attribute("frontrow.run.outcome", "interrupted")
            span.set_attribute("frontrow.run.lease_lost", run.lease_lost)
            span.set_attribute("frontrow.run.cancel_requested", run.cancel_requested)
            raise


def _claim_span(tracer: trace.Tracer, run: Run) -> Span:
    """Return the ended span of the claim, a child of the task's creation when that was traced."""
    carrier = {"traceparent": run.trace_parent} if run.trace_parent else {}
    created = TraceContextTextMapPropagator().extract(carrier, Context())
    now = time.time_ns()
    span = tracer.start_span(
        f"claim {run.task.type}",
        context=created,
        kind=trace.SpanKind.CONSUMER,
        attributes=_facts(run) | {"frontrow.worker_id": run.task.claimed_by},
        # Another machine's clock: never after this one's.
        start_time=min(now, run.task.start_time.ToNanoseconds() or now),
    )
    span.end(now)
    return span


def _facts(run: Run) -> dict[str, str | int]:
    return {
        "frontrow.task.id": run.task_id,
        "frontrow.task.type": run.task.type,
        "frontrow.task.version": run.version,
        "frontrow.task.attempt": run.attempt,
    }
