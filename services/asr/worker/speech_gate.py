"""Believe a server's engine only where somebody speaks: such engines make text of silence."""

from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from libs.common.child import ChildError
from libs.common.child_pool import ChildPool
from services.asr.worker.engine import Engine, EngineFailed
from services.asr.worker.speech import Segment, Span

log = structlog.get_logger(__name__)

# The detector needs a second for ten minutes; a longer one hangs.
_LIMIT_FLOOR_SECONDS, _LIMIT_FACTOR = 60.0, 0.5
# So much of a segment, or half of a shorter one, is speech: its edges are only about right, and an invented
# one may begin in the speech before it.
_LEAST_SPEECH_MS = 500

Stretch = tuple[int, int]


class SpeechGate:
    """An engine that isn't asked about chunks without speech, and whose segments outside of it are dropped.

    Where somebody speaks is found on this machine, by the detector that the engine here has inside.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pool = ChildPool("services.asr.worker.vad_child", size=1)

    async def name(self) -> str:
        """See Engine."""
        return await self._engine.name()

    async def transcribe(
        self, wav: Path, span: Span, on_position: Callable[[int], None]
    ) -> tuple[str, list[Segment]]:
        """See Engine."""
        speech = await self._speech(wav, span)
        if not speech:
            log.info("asr.chunk_without_speech", index=span.index)
            on_position(span.end_ms)
            return "", []
        language, heard = await self._engine.transcribe(wav, span, on_position)
        kept = [segment for segment in heard if is_spoken(segment, speech)]
        if len(kept) < len(heard):
            log.info("asr.segments_without_speech", index=span.index, dropped=len(heard) - len(kept))
        return language, kept

    async def close(self) -> None:
        """See Engine."""
        await self._pool.close()
        await self._engine.close()

    async def _speech(self, wav: Path, span: Span) -> list[Stretch]:
        request = {"wav": str(wav), "start_ms": span.start_ms, "end_ms": span.end_ms}
        seconds = (span.end_ms - span.start_ms) / 1000
        try:
            found = await self._pool.call(
                request, timeout_seconds=max(_LIMIT_FLOOR_SECONDS, seconds * _LIMIT_FACTOR)
            )
        except ChildError as error:
            raise EngineFailed(f"looking for speech failed: {error}") from error
        return [(start_ms, end_ms) for start_ms, end_ms in found["speech"]]


def is_spoken(segment: Segment, speech: Sequence[Stretch]) -> bool:
    """Tell whether enough of a segment lies where somebody speaks."""
    shared_ms = sum(
        max(0, min(segment.end_ms, end_ms) - max(segment.start_ms, start_ms)) for start_ms, end_ms in speech
    )
    length_ms = segment.end_ms - segment.start_ms
    return shared_ms > 0 and shared_ms >= min(_LEAST_SPEECH_MS, length_ms / 2)
