"""A chunk is recognised in pieces, by several processes at once, as if by one."""

import asyncio
from pathlib import Path

import pytest

from services.asr.worker.engine import EngineFailed, FasterWhisper, pieces
from services.asr.worker.pace import BEGUN, PREPARED, Report
from services.asr.worker.settings import AsrWorkerSettings
from services.asr.worker.speech import Segment, Span
from tests.unit.asr.test_chunks import speech_with_silences, write

CHUNK = Span(3, 20_000, 480_000)
# Near the ends of the pieces: the second is cut in a silence, the others where they end anyway.
SILENCES = {165: 0.6, 310: 0.6}


@pytest.fixture
def wav(tmp_path: Path) -> Path:
    return write(tmp_path / "a.wav", speech_with_silences(500, SILENCES))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FasterWhisper:
    """Give an engine whose children say where they are and end in the reverse order."""

    async def piece(self: FasterWhisper, wav: Path, span: Span, says: Report) -> tuple[str, list[Segment]]:
        says(span.start_ms, BEGUN)
        says(span.start_ms, PREPARED)
        says((span.start_ms + span.end_ms) // 2, 1)
        await asyncio.sleep(0.05 / (1 + span.index))
        if span.end_ms == CHUNK.end_ms and wav.name == "bad.wav":
            raise EngineFailed("it crashed")
        return "en" if span.index == 1 else "zh", [Segment(span.start_ms, span.end_ms, f"第{span.index}段")]

    monkeypatch.setattr(FasterWhisper, "_piece", piece)
    return FasterWhisper(AsrWorkerSettings(concurrency=2))


def test_pieces_cover_their_chunk_without_gap_and_are_cut_in_silences(wav: Path) -> None:
    found = pieces(wav, CHUNK)
    assert [piece.start_ms for piece in found] == [CHUNK.start_ms, *(piece.end_ms for piece in found[:-1])]
    assert found[-1].end_ms == CHUNK.end_ms
    assert all(10_000 < piece.end_ms - piece.start_ms <= 170_000 for piece in found)
    assert [abs(found[i].end_ms - second * 1000) < 700 for i, second in enumerate(SILENCES)] == [True, True]
    assert pieces(wav, Span(0, 0, 165_000)) == [Span(0, 0, 165_000)]


async def test_what_the_pieces_say_is_put_together_in_order(engine: FasterWhisper, wav: Path) -> None:
    positions: list[int] = []
    language, segments = await engine.transcribe(wav, CHUNK, positions.append)
    assert language == "zh"
    assert [segment.text for segment in segments] == [f"第{i}段" for i in range(len(segments))]
    assert len(segments) == len(pieces(wav, CHUNK)) > 2
    assert positions == sorted(positions)
    assert (positions[0], positions[-1]) == (CHUNK.start_ms, CHUNK.end_ms)


async def test_the_failure_of_one_piece_is_the_chunks_and_stops_the_others(
    engine: FasterWhisper, wav: Path
) -> None:
    bad = await asyncio.to_thread(wav.rename, wav.with_name("bad.wav"))
    positions: list[int] = []
    with pytest.raises(EngineFailed, match="it crashed"):
        await engine.transcribe(bad, CHUNK, positions.append)
    assert positions[-1] < CHUNK.end_ms


async def test_a_chunk_without_sound_says_nothing(engine: FasterWhisper, wav: Path) -> None:
    assert await engine.transcribe(wav, Span(9, 500_000, 500_000), lambda _: None) == ("", [])
