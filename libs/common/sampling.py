"""Choose which traces are recorded: at most so many new ones a second, so that a busy server stays quick.

A recorded span costs about a third of a small call. An idle system records everything; a busy one a sample,
and its counters still tell of every call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, ParentBased, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes


def sampler(traces_per_second: float) -> Sampler:
    """Return a sampler that goes by the caller's choice where there is one; 0 records no new trace."""
    return ParentBased(AtMost(traces_per_second) if traces_per_second else ALWAYS_OFF)


class AtMost(Sampler):
    """Record at most `per_second` new traces; what a quiet second leaves over is not saved up."""

    def __init__(self, per_second: float, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._most = max(1.0, per_second)
        self._monotonic = monotonic
        self._left = self._most
        self._at = monotonic()

    def should_sample(  # noqa: PLR0917 - the library's signature
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Record while the second has room. Two threads at once may record one more, which is harmless."""
        now = self._monotonic()
        self._left = min(self._most, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1.0:
            return SamplingResult(Decision.DROP, trace_state=trace_state)
        self._left -= 1.0
        return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes, trace_state)

    def get_description(self) -> str:
        """Name this sampler and its limit."""
        return f"AtMost({self._per_second:g}/s)"
