"""Speech recognition by any server with OpenAI's `/v1/audio/transcriptions`."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from libs.common.storable import storable
from services.asr.worker.engine import EngineFailed
from services.asr.worker.engine_http import Json, SpeechServer, sound_of
from services.asr.worker.engine_settings import RemoteEngineSettings
from services.asr.worker.speech import Segment, Span, Word

_WANTED = (
    ("response_format", "verbose_json"),
    ("timestamp_granularities[]", "segment"),
    ("timestamp_granularities[]", "word"),
)


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
    """Yield the segments of an answer on the recording's clock.

    Words come beside the segments and are given to the one that they begin in. A server that gives no times
    has one segment for the whole chunk.

    Raises:
        EngineFailed: times or texts are missing.
    """
    if not isinstance(answer.get("text") or "", str):
        raise EngineFailed("the speech server's answer is no transcription")
    try:
        words = [_word(item, span) for item in answer.get("words") or ()]
        found = [
            Segment(_clock(item["start"], span), _clock(item["end"], span), str(item["text"]))
            for item in answer.get("segments") or ()
        ]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise EngineFailed(f"the speech server's segments make no sense: {error!r}") from error
    if not found and words:
        text = "".join(word.text for word in words)
        found = [Segment(words[0].start_ms, words[-1].end_ms, text)]
    if not found and (answer.get("text") or "").strip():
        found = [Segment(span.start_ms, span.end_ms, answer["text"])]
    for index, segment in enumerate(found):
        until = found[index + 1].start_ms if index + 1 < len(found) else span.end_ms + 1
        mine = _between(words, segment.start_ms if index else span.start_ms, until)
        # words without their punctuation would lose it from the text
        whole = "".join(word.text for word in mine).replace(" ", "") == segment.text.replace(" ", "")
        yield Segment(segment.start_ms, segment.end_ms, segment.text, mine if whole else ())


def _between(words: Sequence[Word], start_ms: int, until_ms: int) -> tuple[Word, ...]:
    return tuple(word for word in words if start_ms <= word.start_ms < until_ms)


def _word(item: Json, span: Span) -> Word:
    return Word(str(item["word"]), _clock(item["start"], span), _clock(item["end"], span))


def _clock(seconds: float, span: Span) -> int:
    return span.start_ms + round(float(seconds) * 1000)
