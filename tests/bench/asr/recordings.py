"""Recordings of any length, made of the sample: two minutes of Mandarin and a moving picture, repeated."""

from __future__ import annotations

from pathlib import Path

from services.asr.media import audio, canonical, ffmpeg, probe
from tests.bench.processes import ROOT

SAMPLE = ROOT / "samples" / "live_zh.mp4"
SAMPLE_SECONDS = 119.7


async def recording(folder: Path, seconds: int) -> Path:
    """Return an MP4 of that length; made once for each folder."""
    path = folder / f"live-{seconds}.mp4"
    if not path.exists():
        times = int(seconds / SAMPLE_SECONDS) + 1
        await ffmpeg.run(
            (
                *("-stream_loop", str(times), *ffmpeg.source(SAMPLE)),
                *("-t", str(seconds), "-c", "copy", "-f", "mp4", ffmpeg.target(path)),
            ),
            timeout_seconds=300,
        )
    return path


async def sound(folder: Path, seconds: int) -> Path:
    """Return what the engine hears of `recording`, as the worker makes it."""
    path = folder / f"live-{seconds}.wav"
    if not path.exists():
        source = await recording(folder, seconds)
        made = await canonical.make(source, folder / "canonical.mp4", await probe.probe(source))
        await audio.extract(made.path, path, duration_ms=made.media.duration_ms)
        made.path.unlink()
    return path
