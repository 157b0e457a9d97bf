"""Tell a collector how much memory this process has: on a page of its own Prometheus' client does."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from opentelemetry import metrics

from libs.common.tally import SCOPE

_STATUS = Path("/proc/self/statm")


def observe_process(meters: metrics.MeterProvider) -> None:
    """Measure this process whenever metrics are read; on systems without /proc nothing is told."""
    if _STATUS.exists():
        meters.get_meter(SCOPE).create_observable_gauge(
            "process.resident_memory", [_resident], unit="By", description="memory that the process has"
        )


def _resident(_options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
    pages = int(_STATUS.read_text(encoding="ascii").split()[1])
    yield metrics.Observation(pages * os.sysconf("SC_PAGE_SIZE"))
