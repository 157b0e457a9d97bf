"""A clip of two minutes, exact to the frame, against encoding all of it."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import time
from pathlib import Path

from services.asr.media import cut, ffmpeg
from services.asr.media.probe import Media, probe
from tests.bench.bed import Bed
from tests.bench.report import Figure

SECONDS, START_MS = 120, 33_333
TARGET = 4.0
_ROUNDS = 5
# What live platforms send: 720p at 25 frames a second, a key frame every two seconds, B-frames.
_ENCODER = ("-c:v", "libx264", "-preset", "veryfast", "-b:v", "2500k", "-g", "50", "-bf", "2")
_SOURCE = "testsrc2=size=1280x720:rate=25,noise=alls=12:allf=t"


async def measure(bed: Bed) -> list[Figure]:
    """Cut the same two minutes both ways, in turn; the middle of the rounds counts."""
    seconds = bed.amount(SECONDS, 20)
    folder = bed.folder / "clip"
    folder.mkdir(parents=True, exist_ok=True)
    recording = folder / f"recording-{seconds}.mp4"
    if not recording.exists():
        await asyncio.to_thread(_record, recording, seconds + 60)
    media = await probe(recording)
    foreign = await asyncio.to_thread(bed.wait_quiet)
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(bed.amount(_ROUNDS, 1)):
        for whole in (False, True):
            times[whole].append(await _cut(recording, folder / "clip.mp4", seconds, media, encode_all=whole))
    smart, whole_time = (statistics.median(times[way]) for way in (False, True))
    factor = whole_time / smart
    return [
        Figure(
            f"{seconds} s clip, frame-exact, against encoding all of it",
            f"{factor:.1f} × ({smart:.2f} s against {whole_time:.2f} s)",
            f"≥ {TARGET:.0f} ×",
            factor >= TARGET,
            foreign_cores=foreign,
            details={"smart_seconds": times[False], "encoded_seconds": times[True]},
        )
    ]


async def _cut(recording: Path, out: Path, seconds: int, media: Media, *, encode_all: bool) -> float:
    began = time.monotonic()
    await cut.cut(recording, out, START_MS, START_MS + seconds * 1000, media=media, encode_all=encode_all)
    took = time.monotonic() - began
    made = await probe(out)
    if abs(made.duration_ms - seconds * 1000) > 200:
        raise RuntimeError(f"the clip has {made.duration_ms} ms")
    return took


def _record(path: Path, seconds: int) -> None:
    argv = [
        *(ffmpeg.find(), "-hide_banner", "-loglevel", "error", "-y"),
        *("-f", "lavfi", "-i", _SOURCE, "-f", "lavfi", "-i", "sine=frequency=440"),
        *("-t", str(seconds), *_ENCODER, "-pix_fmt", "yuv420p", "-c:a", "aac", f"file:{path}"),
    ]
    subprocess.run(argv, check=True, timeout=900)
