"""Ask an OpenAI-compatible chat model for JSON, and make sure that JSON is what comes back."""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import structlog

from libs.common.loops import backoff_seconds
from libs.common.redaction import quoted
from libs.common.storable import storable
from services.asr.worker.llm_errors import AnswerTooLong, LlmFailed
from services.asr.worker.llm_settings import LlmSettings, permit_key

log = structlog.get_logger(__name__)

Json = dict[str, Any]

_LONGEST_PAUSE_SECONDS = 30.0
_LONGEST_ANSWER_BYTES = 8 << 20
_BLOCK_BYTES = 1 << 16
# Refusals of a way of asking, not of the question.
_ANOTHER_WAY = frozenset({400, 404, 415, 422, 501})
# Some servers answer so to a json_schema they can't do, each time; others when they are in trouble for once.
_BROKEN, _TIMES_BROKEN = 500, 2
# A server is restarted and updated: a way that it once refused is tried again after so long.
_AGAIN_SECONDS = 600.0
# Models that think before they answer refuse the one, and know the other by a newer name.
_REFUSABLE = {"temperature": None, "max_tokens": "max_completion_tokens"}
_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)
# What some models write down of their thinking before they answer; its begin may be part of the prompt.
_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL)


class _Refused(Exception):
    """This way of asking was refused."""


class _Unwanted(Exception):
    """The model takes no such option, or not this value of it."""


@dataclass
class _Busy(Exception):
    """The server can't answer now; `pause_seconds` is what it asked for, if it did."""

    message: str
    pause_seconds: float | None = None
    broken: bool = False


class ChatModel:
    """One chat model behind an OpenAI-compatible URL.

    Asks for structured output by json_schema, else json_object, else in plain words, and remembers for some
    minutes what the server can do. Failed calls are counted and repeated here and nowhere else.
    """

    def __init__(self, settings: LlmSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare to ask; `clock` gives seconds that only rise.

        Raises:
            InsecureTransport: the key would go in plaintext beyond this machine.
        """
        permit_key(settings)
        self._settings = settings
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._way = 0
        self._way_until = 0.0
        # answers of `_BROKEN` in a row
        self._broken = 0
        self._unwanted: set[str] = set()

    @property
    def name(self) -> str:
        """The model's name."""
        return self._settings.model

    async def ask(self, system: str, user: str, schema: Json) -> Json:
        """Return the JSON object of the answer; whether it fits `schema` is for the caller to check.

        Raises:
            AnswerTooLong: the answer was cut.
            LlmFailed: there was none that is JSON.
        """
        last = ""
        for attempt in range(1, self._settings.attempts + 1):
            pause = backoff_seconds(
                attempt, first=self._settings.first_pause_seconds, longest=_LONGEST_PAUSE_SECONDS
            )
            try:
                return await self._any_way(system, user, schema)
            except _Busy as busy:
                last = busy.message
                pause = max(pause, min(busy.pause_seconds or 0.0, _LONGEST_PAUSE_SECONDS))
            except (ValueError, _Refused) as error:
                last = str(error)
            log.warning("llm.call_failed", attempt=attempt, error=last[:300])
            if attempt < self._settings.attempts:
                await asyncio.sleep(pause)
        raise LlmFailed(f"no answer of the language model in {self._settings.attempts} calls: {last}")

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _any_way(self, system: str, user: str, schema: Json) -> Json:
        """Ask in the best way known to work, then in plainer ones where the server can't do it.

        A single `_BROKEN` says nothing of the way: that question is for `ask` to repeat.
        """
        if self._clock() >= self._way_until:
            self._way = 0
        formats: list[Json | None] = [
            {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}},
            {"type": "json_object"},
            None,
        ]
        refusal: _Refused | _Busy | None = None
        for way in range(self._way, len(formats)):
            try:
                answer = await self._taken(system, user, formats[way])
            except _Refused as error:
                refusal = error
                continue
            except _Busy as busy:
                self._broken = self._broken + 1 if busy.broken else 0
                if self._broken < _TIMES_BROKEN:
                    raise
                refusal = busy
                continue
            self._broken = 0
            if way > self._way:
                self._way, self._way_until = way, self._clock() + _AGAIN_SECONDS
                log.warning("llm.asked_plainer", way=way, again_seconds=_AGAIN_SECONDS, refusal=str(refusal))
            return _content(answer)
        raise refusal or _Refused("the server refuses every way of asking")

    async def _taken(self, system: str, user: str, response_format: Json | None) -> Json:
        """Ask in one way, without the options that the model has said it doesn't take."""
        while True:
            body: Json = {
                "model": self._settings.model,
                "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            }
            for option, value in (("temperature", 0), ("max_tokens", self._settings.max_answer_tokens)):
                name = _REFUSABLE[option] if option in self._unwanted else option
                if name is not None:
                    body[name] = value
            if response_format is not None:
                body["response_format"] = response_format
            try:
                return await self._post(body)
            except _Unwanted as unwanted:
                self._unwanted.add(str(unwanted))
                log.warning("llm.option_refused", option=str(unwanted))

    async def _post(self, body: Json) -> Json:
        url = f"{self._settings.base_url.rstrip('/')}/chat/completions"
        try:
            async with self._opened().post(url, json=body) as response:
                data = await _body(response)
                if response.status in _ANOTHER_WAY:
                    if (option := _refused_option(data)) in body:
                        raise _Unwanted(option)
                    raise _Refused(f"status {response.status}: {quoted(data, 200)}")
                if response.status != 200:
                    pause = _seconds(response.headers.get("Retry-After", ""))
                    broken = response.status == _BROKEN
                    raise _Busy(f"status {response.status}: {quoted(data, 200)}", pause, broken)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _Busy(f"{type(error).__name__}: {error}") from error
        answer: Json = _parsed(data)
        return answer

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            key = self._settings.api_key.get_secret_value()
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._settings.timeout_seconds),
                headers={"Authorization": f"Bearer {key}"} if key else {},
            )
        return self._session


def _content(answer: Json) -> Json:
    """Take the JSON object out of a completion.

    Raises:
        AnswerTooLong: it was cut; checked before parsing, since a cut list may be mended into a short one.
        ValueError: it is no JSON object.
    """
    try:
        choice = answer["choices"][0]
        text = choice["message"]["content"] or ""
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"the answer is no chat completion: {quoted(str(answer), 200)}") from error
    if choice.get("finish_reason") == "length":
        raise AnswerTooLong("the model's answer was cut at its limit of length")
    return extract(text if isinstance(text, str) else "")


def extract(text: str) -> Json:
    """Find the JSON object in what a model wrote: bare, in a fence, or among words; its texts are storable.

    What it wrote down of its thinking is no answer.

    Raises:
        ValueError: there is none.
    """
    said = _THOUGHT.sub("", text)
    fenced = [match.group(1) for match in _FENCE.finditer(said)]
    braces = said[said.find("{") : said.rfind("}") + 1]
    for candidate in (text, said, *fenced, braces):
        try:
            found = _parsed(candidate)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    raise ValueError(f"no JSON object in the model's answer: {quoted(text, 200)!r}")


def _parsed(text: str | bytes) -> Any:
    """Parse JSON; its texts are storable. Raises ValueError."""
    try:
        return _storable(json.loads(text))
    except RecursionError as error:
        raise ValueError("the JSON is nested too deep") from error


def _storable(value: Any) -> Any:
    """Make the texts in a JSON value ones that can be stored."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_storable(item) for item in value]
    return {name: _storable(item) for name, item in value.items()} if isinstance(value, dict) else value


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """Read an answer to its end, but no endless one."""
    data = bytearray()
    async for block in response.content.iter_chunked(_BLOCK_BYTES):
        data += block
        if len(data) > _LONGEST_ANSWER_BYTES:
            raise _Busy(f"the answer is longer than {_LONGEST_ANSWER_BYTES} bytes")
    return bytes(data)


def _refused_option(data: bytes) -> str:
    """Return the option that a refusal names, where it can be left out or renamed; else empty."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        option = _parsed(data)["error"]["param"]
        return option if option in _REFUSABLE else ""
    return ""


def _seconds(text: str) -> float | None:
    try:
        return max(0.0, float(text))
    except ValueError:
        return None
