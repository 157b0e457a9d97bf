"""Speech recognition by a server: what is sent, what comes back, and how such servers fail."""

import io
import wave
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from services.asr.worker.engine import EngineFailed, EngineUnreachable
from services.asr.worker.engine_settings import RemoteEngineSettings
from services.asr.worker.remote_engine import RemoteEngine, segments
from services.asr.worker.speech import Span, Word
from tests import http_server

SPAN = Span(1, 2_000, 5_000)
ANSWER = {
    "language": "zh",
    "text": "利率下降债券上涨",
    "segments": [
        {"start": 0.0, "end": 1.0, "text": "利率下降"},
        {"start": 1.5, "end": 2.5, "text": "债券，上涨"},
    ],
    "words": [
        {"word": "利率", "start": 0.0, "end": 0.5},
        {"word": "下降", "start": 0.5, "end": 1.0},
        {"word": "债券", "start": 1.5, "end": 2.0},
        {"word": "上涨", "start": 2.0, "end": 2.5},
    ],
}

Answer = Callable[[int], web.Response]


@pytest.fixture
def wav(tmp_path: Path) -> Path:
    """Give six seconds of 16 kHz mono whose samples count up."""
    path = tmp_path / "audio.wav"
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16_000)
        out.writeframes(b"".join((number % 30_000).to_bytes(2, "little") for number in range(96_000)))
    return path


@asynccontextmanager
async def engine(answer: Answer, **settings: Any) -> AsyncIterator[tuple[RemoteEngine, list[dict[str, Any]]]]:
    asked: list[dict[str, Any]] = []

    async def handle(request: web.Request) -> web.Response:
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        with file.file as sound:
            content = sound.read()
        asked.append(
            {
                "sound": content,
                "kinds": form.getall("timestamp_granularities[]"),
                "key": request.headers.get("Authorization"),
                **{name: form.get(name) for name in ("model", "language", "response_format")},
            }
        )
        return answer(len(asked) - 1)

    application = web.Application(client_max_size=1 << 26)
    application.router.add_post("/v1/audio/transcriptions", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    made = RemoteEngine(
        RemoteEngineSettings(url=url, model="m", api_key=SecretStr("k"), first_pause_seconds=0, **settings),
        language="zh",
    )
    try:
        yield made, asked
    finally:
        await made.close()
        await http_server.stop(runner)


async def test_a_chunk_is_sent_as_wav_and_its_times_come_back_on_the_recordings_clock(wav: Path) -> None:
    positions: list[int] = []
    async with engine(lambda _: web.json_response(ANSWER)) as (remote, asked):
        language, found = await remote.transcribe(wav, SPAN, positions.append)
        assert await remote.name() == "openai/m"
    with wave.open(io.BytesIO(asked[0]["sound"])) as sent:
        assert (sent.getframerate(), sent.getnframes()) == (16_000, 48_000)
        assert int.from_bytes(sent.readframes(1), "little") == 32_000 % 30_000
    assert (asked[0]["model"], asked[0]["language"], asked[0]["key"]) == ("m", "zh", "Bearer k")
    assert (asked[0]["response_format"], asked[0]["kinds"]) == ("verbose_json", ["segment", "word"])
    assert (language, positions) == ("zh", [5_000])
    assert [(item.start_ms, item.end_ms, item.text) for item in found] == [
        (2_000, 3_000, "利率下降"),
        (3_500, 4_500, "债券，上涨"),
    ]
    assert found[0].words == (Word("利率", 2_000, 2_500), Word("下降", 2_500, 3_000))
    # its words lack the comma: the text with it is worth more
    assert found[1].words == ()


def test_a_server_without_times_gives_one_segment_and_silence_gives_none() -> None:
    (only,) = segments({"text": "利率下降"}, SPAN)
    assert (only.start_ms, only.end_ms, only.text) == (2_000, 5_000, "利率下降")
    assert list(segments({"text": " "}, SPAN)) == []


@pytest.mark.parametrize("broken", [{"segments": [{"text": "x"}]}, {"words": [{"word": "x", "start": "a"}]}])
def test_segments_that_make_no_sense_are_a_failure(broken: dict[str, Any]) -> None:
    with pytest.raises(EngineFailed, match="no sense"):
        list(segments(broken, SPAN))


async def test_a_busy_server_is_asked_again_and_given_up_after_some_calls(wav: Path) -> None:
    def busy_once(number: int) -> web.Response:
        return web.Response(status=503) if number == 0 else web.json_response(ANSWER)

    async with engine(busy_once) as (remote, asked):
        await remote.transcribe(wav, SPAN, lambda _: None)
        assert len(asked) == 2
    async with engine(lambda _: web.Response(status=500), attempts=3) as (remote, asked):
        with pytest.raises(EngineFailed, match="in 3 calls: status 500"):
            await remote.transcribe(wav, SPAN, lambda _: None)
        assert len(asked) == 3


async def test_a_server_that_is_away_each_time_is_an_outage_and_no_failed_try(wav: Path) -> None:
    async with engine(lambda _: web.Response(status=429), attempts=3) as (remote, asked):
        with pytest.raises(EngineUnreachable, match="away: status 429"):
            await remote.transcribe(wav, SPAN, lambda _: None)
        assert len(asked) == 3
    nobody = RemoteEngine(RemoteEngineSettings(url="http://127.0.0.1:1", attempts=2, first_pause_seconds=0))
    with pytest.raises(EngineUnreachable, match="ClientConnectorError"):
        await nobody.transcribe(wav, SPAN, lambda _: None)
    await nobody.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (web.Response(status=401, text="no key"), "401: no key"),
        (web.Response(text="<html>"), "no JSON"),
        (web.json_response(["x"]), "no JSON object"),
        (web.json_response({"text": 7}), "no transcription"),
    ],
)
async def test_a_refusal_is_not_repeated(wav: Path, answer: web.Response, said: str) -> None:
    async with engine(lambda _: answer) as (remote, asked):
        with pytest.raises(EngineFailed, match=said):
            await remote.transcribe(wav, SPAN, lambda _: None)
        assert len(asked) == 1
