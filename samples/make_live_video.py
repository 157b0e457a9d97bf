"""Make the sample recording: `python -m samples.make_live_video`.

Its sound is `speech/zh_live.opus`; its picture is a moving pattern whose every frame carries its own
number (see `frame_code`). The result, `live_zh.mp4`, is committed: tests and the demo read it from there.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np

from samples.frame_code import Picture, draw_code
from services.asr.media import ffmpeg

HERE = Path(__file__).resolve().parent
SPEECH = HERE / "speech" / "zh_live.opus"
OUT = HERE / "live_zh.mp4"
WIDTH, HEIGHT, FPS, GOP_SECONDS = 416, 234, 25, 2


def seconds_of(audio: Path) -> float:
    """Return how long `audio` lasts."""
    with av.open(str(audio)) as container:
        return float((container.duration or 0) / av.time_base)


def pictures(count: int, *, width: int = WIDTH, height: int = HEIGHT, first: int = 0) -> Iterator[Picture]:
    """Yield `count` grey pictures: a disc that circles over a slowly moving shade, and the code.

    They are numbered from `first` on.
    """
    rows, columns = np.mgrid[0:height, 0:width]
    for number in range(first, first + count):
        shade = 90 + 50 * np.sin(columns / width * 2 * math.pi + number / 50)
        turn = number / FPS * 2 * math.pi / 4
        x, y = width / 2 + width / 3 * math.cos(turn), height * 0.45 + height / 4 * math.sin(turn)
        disc = (columns - x) ** 2 + (rows - y) ** 2 < (height / 9) ** 2
        picture = np.where(disc, 200, shade).astype(np.uint8)
        draw_code(picture, number)
        yield picture


def encode(out: Path, audio: Path, *, fps: str = str(FPS), gop: int = FPS * GOP_SECONDS) -> None:
    """Write the video with its sound to `out`; the container follows the suffix."""
    count = math.ceil(seconds_of(audio) * FPS)
    argv = [
        *(ffmpeg.find(), "-hide_banner", "-loglevel", "error", "-y"),
        *("-f", "rawvideo", "-pix_fmt", "gray", "-s", f"{WIDTH}x{HEIGHT}", "-r", fps, "-i", "pipe:0"),
        *("-i", f"file:{audio}", "-map", "0:v", "-map", "1:a"),
        *("-c:v", "libx264", "-preset", "slow", "-crf", "28", "-pix_fmt", "yuv420p"),
        *("-g", str(gop), "-keyint_min", str(gop), "-sc_threshold", "0"),
        *("-c:a", "aac", "-b:a", "64k", "-ac", "1", "-movflags", "+faststart", f"file:{out}"),
    ]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE)
    assert process.stdin is not None
    for picture in pictures(count):
        process.stdin.write(picture.tobytes())
    process.stdin.close()
    if process.wait() != 0:
        raise RuntimeError("ffmpeg failed, see above")


def main() -> int:
    """Write the sample; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    out: Path = parser.parse_args().out
    encode(out, SPEECH)
    print(f"{out}: {out.stat().st_size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
