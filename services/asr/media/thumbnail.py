"""A still picture of a recording or a clip."""

from __future__ import annotations

import asyncio
from pathlib import Path

from services.asr.media import ffmpeg

WIDTH = 480
CONTENT_TYPE = "image/jpeg"


async def thumbnail(video: Path, out: Path, at_ms: int, *, timeout_seconds: float = 120.0) -> bool:
    """Write the frame of `video` at `at_ms` to `out` as JPEG, at most 480 pixels wide.

    Returns:
        False when there is no frame at that time (nothing is written then).

    Raises:
        MediaError, MediaInfrastructure: see `services.asr.media.errors`.
    """
    await ffmpeg.run(
        (
            *("-ss", f"{max(0, at_ms) / 1000:.3f}"),
            *ffmpeg.source(video),
            *("-map", "0:V:0", "-frames:v", "1", "-update", "1"),
            # commas inside min() are the function's own, hence the quotes
            *("-vf", f"scale='min({WIDTH},iw)':-2", "-q:v", "4", "-f", "image2", ffmpeg.target(out)),
        ),
        timeout_seconds=timeout_seconds,
    )
    return await asyncio.to_thread(_is_filled, out)


def _is_filled(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0
