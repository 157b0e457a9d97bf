"""Measure a speech recogniser: how long it takes for a second of sound."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from opentelemetry import metrics

from libs.common.tally import SCOPE, Tally
from services.asr.worker.engine import Engine
from services.asr.worker.speech import Segment, Span

_RTF_BUCKETS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)


class MeasuredEngine:
    """An engine whose real-time factor is kept: seconds of work for a second of sound; 1 is real time.

    One measurement a chunk; with several recordings at once they share the machine, and it counts.
    """

    def __init__(self, engine: Engine, meters: metrics.MeterProvider | None = None) -> None:
        self._engine = engine
        meter = (meters or metrics.get_meter_provider()).get_meter(SCOPE)
        self._factor = meter.create_histogram(
            "asr.engine.rtf",
            unit="{factor}",
            description="seconds of work for a second of sound, a chunk each",
            explicit_bucket_boundaries_advisory=_RTF_BUCKETS,
        )
        self._chunks = Tally.of(
            meters, "asr.engine.chunks", ("engine", "outcome"),
            unit="{chunk}", description="chunks of recordings given to the engine",
        )  # fmt: skip

    async def name(self) -> str:
        """See Engine."""
        return await self._engine.name()

    async def transcribe(
        self, wav: Path, span: Span, on_position: Callable[[int], None]
    ) -> tuple[str, list[Segment]]:
        """See Engine."""
        name = await self._engine.name()
        for outcome in ("done", "failed"):  # seen before the first one: a rise from nothing is no rise
            self._chunks.add(name, outcome, count=0)
        began = time.monotonic()
        try:
            heard = await self._engine.transcribe(wav, span, on_position)
        except Exception:
            self._chunks.add(name, "failed")
            raise
        self._chunks.add(name, "done")
        sound_seconds = (span.end_ms - span.start_ms) / 1000
        if sound_seconds > 0:
            self._factor.record((time.monotonic() - began) / sound_seconds, {"engine": name})
        return heard

    async def close(self) -> None:
        """See Engine."""
        await self._engine.close()
