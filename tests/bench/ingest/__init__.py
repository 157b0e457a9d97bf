"""The ingest context: what a submission costs, what a seen article costs, how quickly images come in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.bench.bed import Bed
from tests.bench.ingest import images, memory, seen, submit
from tests.bench.report import Figure

BENCHMARKS: dict[str, Callable[[Bed], Awaitable[list[Figure]]]] = {
    "submit": submit.measure,
    "seen": seen.measure,
    "images": images.measure,
    "images-memory": memory.measure,
}
