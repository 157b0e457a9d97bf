"""What a server makes of silence is no speech: neither of a silent chunk nor of the silence in another."""

import wave
from collections.abc import Callable
from pathlib import Path

import pytest

from services.asr.media import ffmpeg
from services.asr.worker.cloud_engine import CloudEngine
from services.asr.worker.engine_settings import CloudEngineSettings, RemoteEngineSettings
from services.asr.worker.mount import _engine
from services.asr.worker.remote_engine import RemoteEngine
from services.asr.worker.settings import AsrWorkerSettings
from services.asr.worker.speech import Segment, Span
from services.asr.worker.speech_gate import SpeechGate, is_spoken
from tests.integration.asr.bed import SAMPLES

RATE = 16_000
SPOKEN_MS, SILENT_MS = 8_000, 20_000
THANKS = "Thanks for watching!"


class Inventing:
    """An engine that hears the same in each span: a sentence at its beginning, thanks in the middle."""

    def __init__(self) -> None:
        self.asked: list[Span] = []

    async def name(self) -> str:
        return "inventing"

    async def transcribe(
        self, wav: Path, span: Span, on_position: Callable[[int], None]
    ) -> tuple[str, list[Segment]]:
        self.asked.append(span)
        on_position(span.end_ms)
        middle = (span.start_ms + span.end_ms) // 2
        return "zh", [
            Segment(span.start_ms + 1_000, span.start_ms + 3_000, "利率下降"),
            Segment(middle, middle + 2_000, THANKS),
        ]

    async def close(self) -> None:
        """Leave nothing."""


@pytest.fixture(scope="module")
async def wav(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give eight seconds of speech, then twenty of digital silence."""
    folder = tmp_path_factory.mktemp("gate")
    speech, out = folder / "speech.wav", folder / "audio.wav"
    cut = (*ffmpeg.source(SAMPLES / "live_zh.mp4"), "-t", str(SPOKEN_MS // 1000), "-vn", "-ac", "1", "-ar",
           str(RATE), "-c:a", "pcm_s16le", ffmpeg.target(speech))  # fmt: skip
    await ffmpeg.run(cut, timeout_seconds=60)
    with wave.open(str(speech)) as heard, wave.open(str(out), "wb") as whole:
        whole.setparams(heard.getparams())
        whole.writeframes(heard.readframes(heard.getnframes()))
        whole.writeframes(bytes(2 * RATE * SILENT_MS // 1000))
    return out


async def test_a_silent_chunk_is_not_even_sent_and_a_mixed_one_keeps_what_was_spoken(wav: Path) -> None:
    engine, positions = Inventing(), list[int]()
    gate = SpeechGate(engine)
    silent = Span(1, SPOKEN_MS + 1_000, SPOKEN_MS + SILENT_MS)
    mixed = Span(0, 0, SPOKEN_MS + SILENT_MS)
    try:
        assert await gate.transcribe(wav, silent, positions.append) == ("", [])
        assert (engine.asked, positions) == ([], [silent.end_ms])
        language, heard = await gate.transcribe(wav, mixed, positions.append)
    finally:
        await gate.close()
    assert (language, [segment.text for segment in heard]) == ("zh", ["利率下降"])
    assert engine.asked == [mixed]


@pytest.mark.parametrize(
    ("segment", "spoken"),
    [
        ((0, 900), True),
        ((900, 1_100), True),
        ((900, 9_000), False),
        ((500, 9_000), True),
        ((2_000, 3_000), False),
        ((9_800, 30_000), True),
    ],
)
def test_a_segment_is_spoken_when_enough_of_it_is(segment: tuple[int, int], spoken: bool) -> None:
    assert is_spoken(Segment(*segment, "x"), [(0, 1_000), (10_000, 11_000)]) is spoken


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"remote_engine": RemoteEngineSettings(url="http://127.0.0.1:1")}, RemoteEngine),
        ({"cloud_engine": CloudEngineSettings(url="http://127.0.0.1:1")}, CloudEngine),
    ],
)
async def test_every_server_stands_behind_the_gate(settings: dict[str, object], kind: type) -> None:
    made = _engine(AsrWorkerSettings.model_validate(settings))
    assert isinstance(made, SpeechGate)
    assert isinstance(made._engine, kind)
    await made.close()
