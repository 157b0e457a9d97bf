"""The review context: what an approval costs, how quickly lists and look-ups are in a large archive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.bench.bed import Bed
from tests.bench.report import Figure

BENCHMARKS: dict[str, Callable[[Bed], Awaitable[list[Figure]]]] = {}
