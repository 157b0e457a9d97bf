"""The asr context: what a recording costs, what its words and topics are worth."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.bench.asr import clip, hour, overhead, together, words
from tests.bench.bed import Bed
from tests.bench.report import Figure

BENCHMARKS: dict[str, Callable[[Bed], Awaitable[list[Figure]]]] = {
    "asr-overhead": overhead.measure,
    "asr-together": together.measure,
    "asr-hour": hour.one,
    "asr-four-hours": hour.four,
    "asr-words": words.measure,
    "asr-clip": clip.measure,
}
