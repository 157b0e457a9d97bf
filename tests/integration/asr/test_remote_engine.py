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

from services.asr.worker.engine import EngineDenied, EngineFailed, EngineUnreachable
from services.asr.worker.engine_settings import RemoteEngineSettings
from services.asr.worker.failures import is_infrastructure, reason_of
from services.asr.worker.remote_engine import RemoteEngine, segments
from services.asr.worker.speech import Span, Word
from services.task.settings import TaskSettings
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
    # the words lack the comma, which the text has
    assert found[1].words == (Word("债券，", 3_500, 4_000), Word("上涨", 4_000, 4_500))


def test_a_server_without_times_gives_one_segment_and_silence_gives_none() -> None:
    (only,) = segments({"text": "利率下降"}, SPAN)
    assert (only.start_ms, only.end_ms, only.text) == (2_000, 5_000, "利率下降")
    assert list(segments({"text": " "}, SPAN)) == []


@pytest.mark.parametrize("broken", [{"segments": [{"text": "x"}]}, {"words": [{"word": "x", "start": "a"}]}])
def test_segments_that_make_no_sense_are_a_failure(broken: dict[str, Any]) -> None:
    with pytest.raises(EngineFailed, match="no sense"):
        list(segments(broken, SPAN))


def test_times_that_are_no_seconds_are_a_failure_and_a_late_invention_is_none() -> None:
    """Else all that was said would be dropped, since nobody speaks there."""
    in_milliseconds = [{"start": at, "end": at + 900, "text": "利率"} for at in (0, 1000, 2000)]
    with pytest.raises(EngineFailed, match="2 of 3 segments begin after the end"):
        list(segments({"segments": in_milliseconds}, SPAN))
    invented = {"start": 3.5, "end": 30.0, "text": "Thanks for watching!"}
    assert len(list(segments({"segments": [*ANSWER["segments"], invented]}, SPAN))) == 3


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
        (web.Response(status=400, text="too short"), "400: too short"),
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


@pytest.mark.parametrize("status", [401, 402, 403, 404, 405, 407])
async def test_a_server_that_lets_nobody_in_is_an_outage_that_says_what_to_mend(
    wav: Path, status: int
) -> None:
    async with engine(lambda _: web.Response(status=status, text="no key")) as (remote, asked):
        with pytest.raises(EngineDenied, match=f"{status}: check its address and its key .*no key") as denied:
            await remote.transcribe(wav, SPAN, lambda _: None)
        assert is_infrastructure(denied.value)
        assert reason_of(denied.value) == "ENGINE_DENIED"
        assert len(asked) == 1


def words_of(text: str, *words: str) -> list[str]:
    """Return what becomes of the words of a segment, half a second each."""
    given = [{"word": word, "start": place / 2, "end": place / 2 + 0.5} for place, word in enumerate(words)]
    (segment,) = segments({"segments": [{"start": 0.0, "end": 3.0, "text": text}], "words": given}, SPAN)
    assert [word.start_ms for word in segment.words] == [2_000 + 500 * i for i in range(len(segment.words))]
    return [word.text for word in segment.words]


@pytest.mark.parametrize(
    ("text", "given", "words"),
    [
        (
            " Hello, World! It's me.",
            ["hello", "world", "It's", "me"],
            [" Hello,", " World!", " It's", " me."],
        ),
        ("“国债”（十年）涨了。", ["国债", "十年", "涨", "了"], ["“国债”（", "十年）", "涨", "了。"]),
        ("Straße — neu", ["STRASSE", "neu"], ["Straße", " — neu"]),
        ("one two", ["one", "three"], []),
        ("one two", ["one"], []),
        ("…", ["x"], []),
    ],
)
def test_words_are_the_texts_with_its_punctuation_and_none_where_they_say_something_else(
    text: str, given: list[str], words: list[str]
) -> None:
    assert words_of(text, *given) == words
    assert not words or "".join(words) == text


def test_words_find_their_segment_by_order_though_the_times_differ_a_little() -> None:
    answer = {
        "segments": [
            {"start": 0.0, "end": 1.0, "text": "利率。"},
            {"start": 1.02, "end": 2.0, "text": "（笑）"},
            {"start": 2.02, "end": 3.0, "text": "利率！"},
        ],
        "words": [{"word": "利率", "start": 0.0, "end": 1.0}, {"word": "利率", "start": 2.0, "end": 3.0}],
    }
    assert [[word.text for word in found.words] for found in segments(answer, SPAN)] == [
        ["利率。"], [], ["利率！"]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"no_speech_prob": 0.98, "avg_logprob": -1.4}, False),
        ({"no_speech_prob": 0.98}, False),
        ({"no_speech_prob": 0.98, "avg_logprob": -0.2}, True),
        ({"no_speech_prob": 0.2, "avg_logprob": -1.4}, True),
        ({}, True),
    ],
)
def test_a_segment_that_the_engine_takes_for_silence_is_none(said: dict[str, float], kept: bool) -> None:
    thanks = {"start": 0.0, "end": 2.0, "text": "Thanks for watching!", **said}
    assert bool(list(segments({"segments": [thanks]}, SPAN))) is kept


def test_by_default_all_calls_of_a_chunk_are_over_before_its_run_counts_as_stalled() -> None:
    settings, task = RemoteEngineSettings(), TaskSettings()
    pauses = sum(settings.first_pause_seconds * 2**number for number in range(settings.attempts - 1))
    stall_seconds = task.stall_seconds_by_type.get("asr", task.stall_seconds)
    assert settings.attempts * settings.timeout_seconds + pauses < stall_seconds
