"""Recordings made for tests: every frame carries its number, beeps sound at known times."""

from __future__ import annotations

import functools
import subprocess
import tempfile
import wave
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from samples.frame_code import frame_number
from samples.make_live_video import pictures
from services.asr.media import ffmpeg

WIDTH, HEIGHT = 208, 120
RATE = 48_000
BEEP_SECONDS = 0.12


def write_beeps(path: Path, seconds: float, beeps: Iterable[float]) -> None:
    """Write a WAV file that is silent but for a 1 kHz beep at each time."""
    sound = np.zeros(int(seconds * RATE), dtype=np.float64)
    tone = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(int(BEEP_SECONDS * RATE)) / RATE)
    for beep in beeps:
        at = int(beep * RATE)
        sound[at : at + len(tone)] += tone[: len(sound) - at]
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes((sound * 32767).astype("<i2").tobytes())


def record(
    path: Path,
    *,
    seconds: float = 12.0,
    fps: str = "25",
    gop_seconds: int = 2,
    beeps: Sequence[float] = (0.5, 3.25, 7.0, 10.5),
    audio_seconds: float | None = None,
    audio_late: float = 0.0,
    output: Sequence[str] = (),
) -> Path:
    """Record a video with frame codes and beeps into the container that the suffix names.

    Beep times are the sound's own; `audio_late` shifts all of it. `output` is appended to ffmpeg's arguments.
    """
    gop = round(gop_seconds * Fraction(fps))
    sound = (audio_seconds or seconds, tuple(beeps))
    picture = (round(seconds * Fraction(fps)), fps, gop)
    path.write_bytes(_recorded(path.suffix, picture, sound, audio_late, tuple(output)))
    return path


@functools.cache
def _recorded(
    suffix: str,
    picture: tuple[int, str, int],
    sound: tuple[float, tuple[float, ...]],
    late: float,
    output: tuple[str, ...],
) -> bytes:
    """Return the bytes of a recording; the same one is encoded once a run.

    `picture` is the number of frames, how many a second, and the length of a group.
    """
    count, fps, gop = picture
    with tempfile.TemporaryDirectory() as folder:
        beeps, made = Path(folder) / "beeps.wav", Path(folder) / f"made{suffix}"
        write_beeps(beeps, *sound)
        argv = [
            *(ffmpeg.find(), "-hide_banner", "-loglevel", "error", "-y"),
            *("-f", "rawvideo", "-pix_fmt", "gray", "-s", f"{WIDTH}x{HEIGHT}", "-r", fps, "-i", "pipe:0"),
            *("-itsoffset", str(late), "-i", f"file:{beeps}", "-map", "0:v", "-map", "1:a"),
            *("-c:v", "libx264", "-preset", "veryfast", "-crf", "26", "-pix_fmt", "yuv420p", "-bf", "2"),
            *("-g", str(gop), "-keyint_min", str(gop), "-sc_threshold", "0", "-c:a", "aac", "-b:a", "96k"),
            *output,
            f"file:{made}",
        ]
        subprocess.run(argv, input=_frames(count), check=True, timeout=60)
        return made.read_bytes()


@functools.cache
def _frames(count: int) -> bytes:
    return b"".join(p.tobytes() for p in pictures(count, width=WIDTH, height=HEIGHT))


def remake(source: Path, out: Path, *arguments: str, before: Sequence[str] = ()) -> Path:
    """Run ffmpeg from `source` to `out` with `arguments` between them, and `before` ahead of the input."""
    argv = [ffmpeg.find(), "-hide_banner", "-loglevel", "error", "-y", *before, "-i", f"file:{source}"]
    subprocess.run([*argv, *arguments, f"file:{out}"], check=True, timeout=60)
    return out


def onsets(path: Path) -> list[float]:
    """Return when the beeps of a 16 kHz WAV file begin, in seconds."""
    with wave.open(str(path), "rb") as file:
        rate = file.getframerate()
        sound = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2").astype(np.float64) / 32768
    loud = np.flatnonzero(np.abs(sound) > 0.15)
    if not len(loud):
        return []
    begins = loud[np.concatenate(([True], np.diff(loud) > 0.3 * rate))]
    return [float(at) / rate for at in begins]


def frame_times(path: Path) -> list[tuple[int, float]]:
    """Decode every frame and return its number with the time it is shown at, in seconds."""
    with av.open(str(path)) as container:
        return [
            (frame_number(frame.to_ndarray(format="gray")), float(frame.time or 0))
            for frame in container.decode(video=0)
        ]


def frame_numbers(path: Path) -> list[int]:
    """Decode every frame of a video and return the numbers the frames carry."""
    with av.open(str(path)) as container:
        return [frame_number(frame.to_ndarray(format="gray")) for frame in container.decode(video=0)]
