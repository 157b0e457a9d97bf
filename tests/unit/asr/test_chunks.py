"""Chunks are cut in silence, the same each time, without gap or overlap."""

import wave
from itertools import pairwise
from pathlib import Path

import numpy as np

from services.asr.worker.chunks import plan, widest_silence

RATE = 16_000


def write(path: Path, samples: np.ndarray) -> Path:
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(samples.astype("<i2").tobytes())
    return path


def speech_with_silences(seconds: int, silences: dict[float, float]) -> np.ndarray:
    noise = np.random.default_rng(1).normal(0, 6000, seconds * RATE)
    for start, length in silences.items():
        noise[int(start * RATE) : int((start + length) * RATE)] = 0
    return noise


def test_a_chunk_ends_in_the_widest_silence_of_its_last_seconds(tmp_path: Path) -> None:
    samples = speech_with_silences(60, {5.0: 2.0, 16.0: 0.3, 18.0: 0.8, 35.0: 0.5})
    spans = plan(write(tmp_path / "a.wav", samples), chunk_seconds=20, cut_window_seconds=8)
    assert abs(spans[0].end_ms - 18_400) <= 40
    assert abs(spans[1].end_ms - 35_250) <= 40


def test_chunks_cover_the_recording_without_gap_or_overlap_and_none_is_too_long(tmp_path: Path) -> None:
    spans = plan(
        write(tmp_path / "a.wav", speech_with_silences(95, {})), chunk_seconds=20, cut_window_seconds=5
    )
    assert [span.index for span in spans] == list(range(len(spans)))
    assert spans[0].start_ms == 0
    assert spans[-1].end_ms == 95_000
    assert all(a.end_ms == b.start_ms for a, b in pairwise(spans))
    assert all(0 < span.end_ms - span.start_ms <= 25_000 for span in spans)


def test_a_recording_little_longer_than_a_chunk_is_not_cut(tmp_path: Path) -> None:
    assert (
        len(
            plan(
                write(tmp_path / "a.wav", speech_with_silences(22, {})),
                chunk_seconds=20,
                cut_window_seconds=4,
            )
        )
        == 1
    )


def test_an_empty_recording_has_no_chunk(tmp_path: Path) -> None:
    assert plan(write(tmp_path / "a.wav", np.zeros(0)), chunk_seconds=20, cut_window_seconds=4) == []


def test_without_any_silence_the_quietest_frame_is_taken() -> None:
    samples = np.full(RATE, 8000, dtype=np.int16)
    samples[8000:8320] = 4000
    assert widest_silence(samples, 320) == 25
