"""One measurement in a process of its own: arguments come as JSON, the result is the last line of stdout.

Standard library only, since the other queues' environment has nothing of ours.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from tests.bench.load import Meter, wait_quiet

Arguments = Mapping[str, Any]
Measurement = Callable[[Arguments], Coroutine[Any, Any, dict[str, Any]]]


def serve(measure: Measurement) -> None:
    """Run the measurement that stdin asks for and print its result."""
    logging.disable(logging.WARNING)
    result = asyncio.run(measure(json.load(sys.stdin)))
    sys.stdout.write(f"\n{json.dumps(result)}\n")
    sys.stdout.flush()


def quiet(arguments: Arguments) -> float:
    """Wait for a quiet machine as long as the run allows; return the cores others still use."""
    return wait_quiet(arguments["pids"]["bench"], patience_seconds=arguments["patience_seconds"])


def meter(arguments: Arguments) -> Meter:
    """Return a meter of all processes of this run, this one as `client`."""
    return Meter({**arguments["pids"], "client": os.getpid()})


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of the values don't exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return count, median, 99th percentile and maximum of spans, in milliseconds."""
    return {
        "count": len(seconds),
        "p50_ms": round(percentile(seconds, 0.50) * 1e3, 2),
        "p99_ms": round(percentile(seconds, 0.99) * 1e3, 2),
        "max_ms": round(max(seconds) * 1e3, 2),
    }
