"""Recordings whose encoder changes on the way, as a live stream's does when it comes back or is switched."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from samples.make_live_video import pictures
from services.asr.media import ffmpeg
from tests.integration.media.recordings import write_beeps

# Far enough from zero that no muxer moves a stretch whose first frame is decoded before it is shown.
_BEGIN = 10
_FLV_HEADER, _FLV_TAG, _FLV_TAG_END, _FLV_SCRIPT = 13, 11, 4, 18


@dataclass(frozen=True)
class Stretch:
    """What one encoder makes: its frames, their size and rate, and what else ffmpeg is told.

    `hole` is how many seconds nothing came before it.
    """

    frames: int
    fps: str = "25"
    size: tuple[int, int] = (208, 120)
    gop: int = 25
    bframes: int = 2
    options: tuple[str, ...] = ()
    hole: Fraction = Fraction(0)

    @property
    def seconds(self) -> Fraction:
        """How long it lasts."""
        return self.frames / Fraction(self.fps)


def frame_schedule(stretches: Sequence[Stretch]) -> list[Fraction]:
    """Return when each frame is shown, in seconds since the first."""
    times: list[Fraction] = []
    for begin, stretch in _placed(stretches):
        times += [begin + number / Fraction(stretch.fps) for number in range(stretch.frames)]
    return times


def record_changes(path: Path, stretches: Sequence[Stretch]) -> Path:
    """Record the stretches one behind the other into a .ts or .flv; frames are numbered through the whole."""
    parts, number = [], 0
    for begin, stretch in _placed(stretches):
        parts.append(_recorded(path.suffix, stretch, begin, number))
        number += stretch.frames
    if path.suffix == ".flv":
        parts = [parts[0], *(without_head(part) for part in parts[1:])]
    path.write_bytes(b"".join(parts))
    return path


def _placed(stretches: Sequence[Stretch]) -> Iterator[tuple[Fraction, Stretch]]:
    end = Fraction(0)
    for stretch in stretches:
        yield end + stretch.hole, stretch
        end += stretch.hole + stretch.seconds


def _recorded(suffix: str, stretch: Stretch, begin: Fraction, number: int) -> bytes:
    width, height = stretch.size
    frames = b"".join(
        picture.tobytes() for picture in pictures(stretch.frames, width=width, height=height, first=number)
    )
    with tempfile.TemporaryDirectory() as folder:
        beeps, made = Path(folder) / "beeps.wav", Path(folder) / f"made{suffix}"
        write_beeps(beeps, float(stretch.seconds), [0.5])
        argv = [
            *(ffmpeg.find(), "-hide_banner", "-loglevel", "error", "-y"),
            *("-f", "rawvideo", "-pix_fmt", "gray", "-s", f"{width}x{height}", "-r", stretch.fps),
            *("-i", "pipe:0", "-i", f"file:{beeps}", "-map", "0:v", "-map", "1:a"),
            *("-c:v", "libx264", "-preset", "veryfast", "-crf", "26", "-pix_fmt", "yuv420p"),
            *("-bf", str(stretch.bframes), "-g", str(stretch.gop), "-keyint_min", str(stretch.gop)),
            *("-sc_threshold", "0", *stretch.options, "-c:a", "aac", "-b:a", "96k"),
            *("-output_ts_offset", f"{float(_BEGIN + begin):.6f}", "-flvflags", "no_duration_filesize"),
            f"file:{made}",
        ]
        subprocess.run(argv, input=frames, check=True, timeout=60)
        return made.read_bytes()


def without_head(flv: bytes) -> bytes:
    """Return an FLV recording's tags but for those that tell of the file."""
    kept, at = [], _FLV_HEADER
    while at < len(flv):
        end = at + _FLV_TAG + int.from_bytes(flv[at + 1 : at + 4], "big") + _FLV_TAG_END
        if flv[at] != _FLV_SCRIPT:
            kept.append(flv[at:end])
        at = end
    return b"".join(kept)
