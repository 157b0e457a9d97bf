"""A still picture of a recording or a clip."""

from __future__ import annotations

import asyncio
from pathlib import Path

from services.asr.media import ffmpeg
from services.asr.media.cut import frame_time

WIDTH = 480
_SQUARE = "setsar=1,format=yuvj420p"


async def thumbnail(video: Path, out: Path, at_ms: int, *, timeout_seconds: float = 120.0) -> None:
    """Write the frame that is on screen at `at_ms` to `out` as JPEG, at most 480 pixels wide.

    Past the end it is the last frame, before the beginning the first.

    Raises:
        MediaError, MediaInfrastructure, Undecided: see `services.asr.media.errors`.
    """
    # The time of the frame itself: a seek to a moment between the last frame and the end finds nothing.
    time = await asyncio.to_thread(frame_time, video, max(0, at_ms))
    await ffmpeg.run(
        (
            *("-ss", f"{int(time * 1_000_000) / 1_000_000:.6f}"),
            *ffmpeg.source(video),
            *("-map", "0:V:0", "-frames:v", "1", "-update", "1"),
            # pixels become square; commas inside functions are their own, hence the quotes
            *("-vf", f"scale='min({WIDTH},iw*sar)':'max(2,trunc(ow/dar/2)*2)':out_range=full,{_SQUARE}"),
            *("-q:v", "4", "-f", "image2", ffmpeg.target(out)),
        ),
        timeout_seconds=timeout_seconds,
    )
