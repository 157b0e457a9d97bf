"""Let a submission belong to the trace that the spider is in, where OpenTelemetry's API is installed."""

from __future__ import annotations

try:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True


def present_trace() -> tuple[tuple[str, str], ...]:
    """Return metadata that names the present span, none where there is none."""
    if not AVAILABLE:
        return ()
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return tuple(carrier.items())
