"""The task context beside the queues people use today."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.bench.bed import Bed
from tests.bench.report import Figure
from tests.bench.task import (
    drain,
    idle,
    large,
    latency,
    leases,
    memory,
    overhead,
    pinned,
    single,
    source_claim,
)

BENCHMARKS: dict[str, Callable[[Bed], Awaitable[list[Figure]]]] = {
    "drain": drain.measure,
    "single": single.measure,
    "overhead": overhead.measure,
    "source-claim": source_claim.measure,
    "latency": latency.measure,
    "idle": idle.measure,
    "pinned": pinned.measure,
    "large": large.measure,
    "leases": leases.measure,
    "memory": memory.measure,
}
