"""Speech recognition by any server with OpenAI's `/v1/audio/transcriptions`."""

import asyncio
import io
import json
import wave
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import structlog

from libs.common.loops import backoff_seconds
from services.asr.worker.engine import EngineFailed
from services.asr.worker.engine_settings import RemoteEngineSettings
from services.asr.worker.speech import Segment, Span, Word

log = structlog.get_logger(__name__)

Json = dict[str, Any]

_LONGEST_ANSWER_BYTES = 64 << 20
_BLOCK_BYTES = 1 << 16
_BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class RemoteEngine:
    """Sends each chunk as a WAV file and reads segments, with words where the server gives them.

    Failed calls are counted and repeated here and nowhere else.
    """

    def __init__(self, settings: RemoteEngineSettings, *, language: str = "", prompt: str = "") -> None:
        self._settings = settings
        self._language = language
        self._prompt = prompt
        self._session: aiohttp.ClientSession | None = None

    async def name(self) -> str:
        """See Engine."""
        return f"openai/{self._settings.model}"[:128]

    async def transcribe(
        self, wav: Path, span: Span, on_position: Callable[[int], None]
    ) -> tuple[str, list[Segment]]:
        """See Engine; the position is known at the end only."""
        sound = await asyncio.to_thread(_cut, wav, span)
        last = ""
        for attempt in range(1, self._settings.attempts + 1):
            try:
                answer = await self._post(sound)
            except (aiohttp.ClientError, TimeoutError) as error:
                last = f"{type(error).__name__}: {error}"
            else:
                on_position(span.end_ms)
                return _language(answer), list(segments(answer, span))
            log.warning("asr.engine_call_failed", attempt=attempt, error=last[:300])
            if attempt < self._settings.attempts:
                await asyncio.sleep(backoff_seconds(attempt, first=self._settings.first_pause_seconds))
        raise EngineFailed(f"the speech server gave no answer in {self._settings.attempts} calls: {last}")

    async def close(self) -> None:
        """See Engine."""
        if self._session is not None:
            await self._session.close()

    async def _post(self, sound: bytes) -> Json:
        """Make one call.

        Raises:
            aiohttp.ClientError, TimeoutError: another try may succeed.
            EngineFailed: it won't.
        """
        form = aiohttp.FormData()
        form.add_field("file", sound, filename="audio.wav", content_type="audio/wav")
        form.add_field("model", self._settings.model)
        form.add_field("response_format", "verbose_json")
        for kind in ("segment", "word"):
            form.add_field("timestamp_granularities[]", kind)
        if self._language:
            form.add_field("language", self._language)
        if self._prompt:
            form.add_field("prompt", self._prompt)
        url = f"{self._settings.url.rstrip('/')}/audio/transcriptions"
        async with self._opened().post(url, data=form) as response:
            data = bytearray()
            async for block in response.content.iter_chunked(_BLOCK_BYTES):
                data += block
                if len(data) > _LONGEST_ANSWER_BYTES:
                    raise EngineFailed(
                        f"the speech server's answer is longer than {_LONGEST_ANSWER_BYTES} bytes"
                    )
            if response.status in _BUSY:
                raise aiohttp.ClientError(f"status {response.status}")
            if response.status != 200:
                said = data[:200].decode("utf-8", "replace")
                raise EngineFailed(f"the speech server refused with {response.status}: {said}")
        return _object(bytes(data))

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            key = self._settings.api_key.get_secret_value()
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._settings.timeout_seconds),
                headers={"Authorization": f"Bearer {key}"} if key else {},
            )
        return self._session


def _cut(wav: Path, span: Span) -> bytes:
    out = io.BytesIO()
    with wave.open(str(wav), "rb") as whole, wave.open(out, "wb") as part:
        rate = whole.getframerate()
        part.setparams(whole.getparams())
        whole.setpos(min(span.start_ms * rate // 1000, whole.getnframes()))
        part.writeframes(whole.readframes((span.end_ms - span.start_ms) * rate // 1000))
    return out.getvalue()


def _object(data: bytes) -> Json:
    try:
        answer = json.loads(data)
    except ValueError as error:
        raise EngineFailed(f"the speech server's answer is no JSON: {data[:200]!r}") from error
    if not isinstance(answer, dict) or not isinstance(answer.get("text", ""), str):
        raise EngineFailed("the speech server's answer is no transcription")
    return answer


def _language(answer: Json) -> str:
    return str(answer.get("language") or "")[:32]


def segments(answer: Json, span: Span) -> Iterator[Segment]:
    """Yield the segments of an answer on the recording's clock.

    Words come beside the segments and are given to the one that they begin in. A server that gives no times
    has one segment for the whole chunk.

    Raises:
        EngineFailed: times or texts are missing.
    """
    try:
        words = [_word(item, span) for item in answer.get("words") or ()]
        found = [
            Segment(_clock(item["start"], span), _clock(item["end"], span), str(item["text"]))
            for item in answer.get("segments") or ()
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise EngineFailed(f"the speech server's segments make no sense: {error!r}") from error
    if not found and words:
        text = "".join(word.text for word in words)
        found = [Segment(words[0].start_ms, words[-1].end_ms, text)]
    if not found and answer.get("text", "").strip():
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
