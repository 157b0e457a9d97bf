"""An engine that does what a test says, chunk by chunk: the faults are real, the speech is not."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from services.asr.worker.speech import Segment, Span


class Scripted:
    """Raises the given errors one after another, then recognises the same sentence in each chunk."""

    def __init__(self, errors: Sequence[Exception] = (), *, hang: bool = False) -> None:
        self._errors = list(errors)
        self._hang = hang
        self.calls = 0
        self.cancelled = 0

    async def name(self) -> str:
        return "scripted"

    async def transcribe(
        self, wav: Path, span: Span, on_position: Callable[[int], None]
    ) -> tuple[str, list[Segment]]:
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)
        if self._hang:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1
        on_position(span.end_ms)
        return "zh", [Segment(span.start_ms, span.start_ms + 900, f"利率下降 {span.index}")]

    async def close(self) -> None:
        """Leave nothing."""
