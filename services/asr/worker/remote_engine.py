"""Speech recognition by any server with OpenAI's `/v1/audio/transcriptions`."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

from libs.common.storable import storable
from services.asr.worker.engine import EngineFailed
from services.asr.worker.engine_http import Json, SpeechServer, sound_of
from services.asr.worker.engine_settings import RemoteEngineSettings
from services.asr.worker.remote_words import Words
from services.asr.worker.speech import Segment, Span, Word

log = structlog.get_logger(__name__)

_WANTED = (
    ("response_format", "verbose_json"),
    ("timestamp_granularities[]", "segment"),
    ("timestamp_granularities[]", "word"),
)
_SILENCE, _UNSURE = 0.6, -1.0


class RemoteEngine:
    """Sends each chunk as a WAV file and reads segments, with words where the server gives them."""

    def __init__(self, settings: RemoteEngineSettings, *, language: str = "", prompt: str = "") -> None:
        self._model = settings.model
        self._server = SpeechServer(settings, language=language, prompt=prompt)

    async def name(self) -> str:
        """See Engine."""
        return f"openai/{self._model}"[:128]

    async def transcribe(
        self, wav: Path, span: Span, on_position: Callable[[int], None]
    ) -> tuple[str, list[Segment]]:
        """See Engine; the position is known at the end only."""
        sound = await asyncio.to_thread(sound_of, wav, span)
        answer = await self._server.send("/audio/transcriptions", sound, fields=_WANTED)
        found = list(segments(answer, span))
        on_position(span.end_ms)
        return language_of(answer), found

    async def close(self) -> None:
        """See Engine."""
        await self._server.close()


def language_of(answer: Json) -> str:
    """Return the language that an answer names; empty when it names none."""
    return storable(str(answer.get("language") or ""))[:32]


def segments(answer: Json, span: Span) -> Iterator[Segment]:
    """Yield the segments of an answer on the recording's clock, without those that it calls silence itself.

    Words come beside the segments and are given to the one that they spell. A server that gives no times has
    one segment for the whole chunk.

    Raises:
        EngineFailed: times or texts are missing, or the times are not those of what was sent.
    """
    if not isinstance(answer.get("text") or "", str):
        raise EngineFailed("the speech server's answer is no transcription")
    try:
        words = [_word(item, span) for item in answer.get("words") or ()]
        found = [(_segment(item, span), _silent(item)) for item in answer.get("segments") or ()]
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise EngineFailed(f"the speech server's segments make no sense: {error!r}") from error
    if not found and words:
        text = answer.get("text") or "".join(word.text for word in words)
        found = [(Segment(words[0].start_ms, words[-1].end_ms, text), False)]
    if not found and (answer.get("text") or "").strip():
        found = [(Segment(span.start_ms, span.end_ms, answer["text"]), False)]
    # one or two are made up of the silence that engines put behind a chunk
    late = sum(segment.start_ms >= span.end_ms for segment, _ in found)
    if late * 2 > len(found):
        raise EngineFailed(f"{late} of {len(found)} segments begin after the end of the sound: no seconds?")
    dropped = sum(silent for _, silent in found)
    if dropped:
        log.info("asr.segments_called_silent", index=span.index, dropped=dropped)
    beside = Words(words)
    for segment, silent in found:
        mine = beside.of(segment.text, segment.start_ms)
        if not silent:
            yield Segment(segment.start_ms, segment.end_ms, segment.text, mine)


def _silent(item: Json) -> bool:
    """Tell whether the engine takes a segment for silence: Whisper's own rule and its own thresholds.

    A text that it is sure of stays: the probability alone is often high for real speech.
    """
    silence, sureness = item.get("no_speech_prob"), item.get("avg_logprob")
    if silence is None or float(silence) <= _SILENCE:
        return False
    return sureness is None or float(sureness) < _UNSURE


def _segment(item: Json, span: Span) -> Segment:
    return Segment(_clock(item["start"], span), _clock(item["end"], span), str(item["text"]))


def _word(item: Json, span: Span) -> Word:
    return Word(str(item["word"]), _clock(item["start"], span), _clock(item["end"], span))


def _clock(seconds: float, span: Span) -> int:
    return span.start_ms + round(float(seconds) * 1000)
