"""Calls to a speech server: bounded, repeated, and with an outage told apart from a bad chunk."""

from __future__ import annotations

import asyncio
import io
import json
import wave
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import structlog

from libs.common.loops import backoff_seconds
from libs.common.plaintext import permit_url
from libs.common.redaction import quoted
from services.asr.worker.engine import EngineDenied, EngineFailed, EngineUnreachable
from services.asr.worker.engine_settings import CloudEngineSettings, RemoteEngineSettings
from services.asr.worker.speech import Span

log = structlog.get_logger(__name__)

Json = dict[str, Any]
MakeForm = Callable[[], aiohttp.FormData]
Fields = Sequence[tuple[str, str]]
ServerSettings = RemoteEngineSettings | CloudEngineSettings

LONGEST_ANSWER_BYTES = 64 << 20
_BLOCK_BYTES = 1 << 16
_CONNECT_SECONDS = 10.0
# Said by a server, or by the proxy before it, that is full or away: no word about what it was given.
_AWAY = frozenset({429, 502, 503, 504})
# Said to whoever calls, whatever was sent: the key is wrong, expired or not paid for.
_DENIED = frozenset({401, 402, 403, 407})
# Said of the address itself, where that is the same for every chunk.
_NOT_HERE = frozenset({404, 405, 410})
# Perhaps a passing trouble, perhaps what was sent: nobody can tell which.
_AGAIN = frozenset({408, 409, 425, 500})


class Trouble(Exception):
    """A call that may be repeated. `away`: the server is down or full, whatever it was sent."""

    def __init__(self, message: str, *, away: bool) -> None:
        super().__init__(message)
        self.away = away


class SpeechServer:
    """One server: its HTTP session, opened at the first call, and what it is told with every chunk.

    `asked` is the latter, by name, empty values included.
    """

    def __init__(self, settings: ServerSettings, *, language: str = "", prompt: str = "") -> None:
        """Send each chunk with the model's name, and with `language` and `prompt` unless they are empty.

        Raises:
            InsecureTransport: the key would go in plaintext beyond this machine.
        """
        if settings.api_key.get_secret_value():
            permit_url(settings.url, "the key of the speech server")
        self._settings = settings
        self._url = settings.url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None
        self.asked = {"model": settings.model, "language": language, "prompt": prompt}

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    async def call(
        self, method: str, path: str, *, form: MakeForm | None = None, headers: dict[str, str] | None = None
    ) -> Json:
        """Make one call and return the JSON object of its answer.

        Raises:
            Trouble: another call may succeed.
            EngineDenied: the server lets nobody in; that is for whoever runs it to mend.
            EngineFailed: none will; the server refused, or its answer is no JSON object.
        """
        try:
            async with self._opened().request(
                method, f"{self._url}{path}", data=form() if form else None, headers=headers
            ) as response:
                data = await _bounded(response)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Trouble(_said(error), away=True) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Trouble(_said(error), away=False) from error
        if response.status in _AWAY or response.status in _AGAIN:
            raise Trouble(f"status {response.status}", away=response.status in _AWAY)
        if response.status in _DENIED or (form is not None and response.status in _NOT_HERE):
            log.error("asr.engine_denied", status=response.status, said=quoted(data, 200))
            raise EngineDenied(
                f"the speech server refuses everybody with {response.status}: check its address and its key"
                f" (it says: {quoted(data, 200)})"
            )
        if response.status not in {200, 201, 202}:
            raise EngineFailed(f"the speech server refused with {response.status}: {quoted(data, 200)}")
        return _object(data)

    async def send(
        self, path: str, sound: bytes, *, fields: Fields = (), headers: dict[str, str] | None = None
    ) -> Json:
        """Send a chunk, as often as the settings allow; failed calls are repeated here and nowhere else.

        `sound` is a WAV file, `fields` are sent beside `asked`.

        Raises:
            EngineUnreachable: the server was away each time, or lets nobody in (EngineDenied).
            EngineFailed: it refused, or gave no answer although it was there at least once: that may be due
                to what it was sent, and must not be repeated for ever.
        """
        last, away, attempts = "", True, self._settings.attempts

        def form() -> aiohttp.FormData:
            made = aiohttp.FormData()
            made.add_field("file", sound, filename="audio.wav", content_type="audio/wav")
            for name, value in (*self.asked.items(), *fields):
                if value:
                    made.add_field(name, value)
            return made

        for attempt in range(1, attempts + 1):
            try:
                return await self.call("POST", path, form=form, headers=headers)
            except Trouble as trouble:
                last, away = str(trouble), away and trouble.away
            log.warning("asr.engine_call_failed", attempt=attempt, error=last[:300])
            if attempt < attempts:
                await asyncio.sleep(backoff_seconds(attempt, first=self._settings.first_pause_seconds))
        if away:
            raise EngineUnreachable(f"the speech server is away: {last}")
        raise EngineFailed(f"the speech server gave no answer in {attempts} calls: {last}")

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            key = self._settings.api_key.get_secret_value()
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(
                    total=self._settings.timeout_seconds, sock_connect=_CONNECT_SECONDS
                ),
                headers={"Authorization": f"Bearer {key}"} if key else {},
            )
        return self._session


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for block in response.content.iter_chunked(_BLOCK_BYTES):
        data += block
        if len(data) > LONGEST_ANSWER_BYTES:
            raise EngineFailed(f"the speech server's answer is longer than {LONGEST_ANSWER_BYTES} bytes")
    return bytes(data)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _object(data: bytes) -> Json:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EngineFailed(f"the speech server's answer is no JSON: {quoted(data, 200)!r}") from error
    if not isinstance(answer, dict):
        raise EngineFailed("the speech server's answer is no JSON object")
    return answer


def sound_of(wav: Path, span: Span) -> bytes:
    """Return one span of a WAV file as a WAV file of its own; reads nothing else."""
    out = io.BytesIO()
    with wave.open(str(wav), "rb") as whole, wave.open(out, "wb") as part:
        rate = whole.getframerate()
        part.setparams(whole.getparams())
        whole.setpos(min(span.start_ms * rate // 1000, whole.getnframes()))
        part.writeframes(whole.readframes((span.end_ms - span.start_ms) * rate // 1000))
    return out.getvalue()
