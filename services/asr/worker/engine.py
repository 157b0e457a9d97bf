"""Speech recognition behind one interface, and the engine that runs on this machine."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from libs.common.child import ChildCrashed, ChildFailed, ChildTimeout
from libs.common.child_pool import ChildPool
from libs.common.together import together
from services.asr.worker.model import model_folder
from services.asr.worker.pace import Pace, PieceOnItsWay, Report
from services.asr.worker.settings import AsrWorkerSettings
from services.asr.worker.speech import Segment, Span, Word

# Whisper base needs about a tenth of the audio's length; a chunk that takes longer than this hangs.
_SLOWEST_FACTOR = 10.0
_SLOWEST_FLOOR_SECONDS = 300.0
# Short enough for two children to need less memory than one with all of a chunk, and to end together.
_PIECE_SECONDS, _PIECE_CUT_SECONDS = 150, 20
# How often the position is told on; a per cent of an hour is not much more than three seconds of work.
_TELL_SECONDS = 0.5


class EngineFailed(Exception):
    """The engine gave no answer for a chunk: it crashed, hung or refused. Another try may succeed."""


class EngineUnreachable(Exception):
    """The engine's server is down or busy, whatever the recording: infrastructure, never charged."""


class EngineDenied(EngineUnreachable):
    """The engine's server lets nobody in with these settings: a wrong or expired key, or a wrong address."""


class Engine(Protocol):
    """A speech recogniser."""

    async def name(self) -> str:
        """Return engine, model and number format, such as `faster-whisper/base/int8`.

        Raises:
            NoEngine: there is none on this machine.
        """
        ...

    async def transcribe(
        self, wav: Path, span: Span, on_position: Callable[[int], None]
    ) -> tuple[str, list[Segment]]:
        """Recognise the speech of one span of a 16 kHz mono WAV; returns language and segments.

        Times are the recording's. `on_position` is told how far it has come, in milliseconds of the
        recording. Stops at once when cancelled.

        Raises:
            EngineFailed: no answer for this chunk.
            EngineUnreachable, NoEngine: no engine for any chunk.
        """
        ...

    async def close(self) -> None:
        """End what runs."""
        ...


class FasterWhisper:
    """faster-whisper in child processes, killable, and gone with this process.

    A chunk is recognised in pieces by as many children as are free, since one process hardly profits from a
    second core. Where it is cut depends on its sound alone, so a machine of other cores hears the same.
    """

    def __init__(self, settings: AsrWorkerSettings) -> None:
        self._settings = settings
        self._pool = ChildPool("services.asr.worker.engine_child", size=settings.loops)
        self._found: tuple[Path, str] | None = None
        self._finding = asyncio.Lock()
        self._pace = Pace()

    async def name(self) -> str:
        """See Engine."""
        _, model = await self._model()
        return f"faster-whisper/{model}/{self._settings.compute_type}"

    async def transcribe(
        self, wav: Path, span: Span, on_position: Callable[[int], None]
    ) -> tuple[str, list[Segment]]:
        """See Engine."""
        found = await asyncio.to_thread(pieces, wav, span)
        on_their_way = [PieceOnItsWay(piece, self._pace) for piece in found]

        async def tell() -> None:
            while True:
                done_ms = sum(one.position_ms() - one.piece.start_ms for one in on_their_way)
                on_position(span.start_ms + done_ms)
                await asyncio.sleep(_TELL_SECONDS)

        async def recognise(one: PieceOnItsWay) -> tuple[str, list[Segment]]:
            heard = await self._piece(wav, one.piece, one.says)
            one.ends()
            return heard

        telling = asyncio.create_task(tell())
        try:
            async with together() as group:
                tasks = [group.create_task(recognise(one)) for one in on_their_way]
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        on_position(span.end_ms)
        heard = [task.result() for task in tasks]
        languages = Counter(language for language, segments in heard if segments)
        language = languages.most_common(1)[0][0] if languages else heard[0][0] if heard else ""
        return language, [segment for _, segments in heard for segment in segments]

    async def _piece(self, wav: Path, span: Span, says: Report) -> tuple[str, list[Segment]]:
        folder, _ = await self._model()
        request = {
            "wav": str(wav),
            "start_ms": span.start_ms,
            "end_ms": span.end_ms,
            "model_dir": str(folder),
            "device": self._settings.device,
            "compute_type": self._settings.compute_type,
            "beam_size": self._settings.beam_size,
            "language": self._settings.language,
            "initial_prompt": self._settings.initial_prompt,
        }
        seconds = (span.end_ms - span.start_ms) / 1000
        try:
            result = await self._pool.call(
                request,
                timeout_seconds=max(_SLOWEST_FLOOR_SECONDS, seconds * _SLOWEST_FACTOR),
                on_event=lambda event: says(event["position_ms"], event["window"]),
            )
        except (ChildCrashed, ChildFailed, ChildTimeout) as error:
            raise EngineFailed(f"speech recognition failed: {error}") from error
        return result["language"], [_segment(item) for item in result["segments"]]

    async def close(self) -> None:
        """See Engine."""
        await self._pool.close()

    async def _model(self) -> tuple[Path, str]:
        async with self._finding:
            if self._found is None:
                folder, name = await asyncio.to_thread(model_folder, self._settings)
                self._found = (folder.resolve(), name)
        return self._found


def pieces(wav: Path, span: Span) -> list[Span]:
    """Return the pieces that a chunk is recognised in, cut in its silences; blocks."""
    # numpy comes with it, which takes most of a second: a worker must be ready before that
    from services.asr.worker import chunks

    return chunks.plan(wav, chunk_seconds=_PIECE_SECONDS, cut_window_seconds=_PIECE_CUT_SECONDS, within=span)


def _segment(item: dict[str, Any]) -> Segment:
    words = tuple(Word(text, start_ms, end_ms) for text, start_ms, end_ms in item["words"])
    return Segment(item["start_ms"], item["end_ms"], item["text"], words)
