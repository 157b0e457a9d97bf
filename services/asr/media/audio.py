"""The audio that engines hear: 16 kHz mono, on the canonical clock."""

from __future__ import annotations

import asyncio
from pathlib import Path

from services.asr.media import ffmpeg
from services.asr.media.phase import opposed

SAMPLE_RATE = 16_000
# Holes are filled and overlaps trimmed from 20 ms on. The filter's own limit, 100 ms, lets the sound behind a
# join of two recordings stay a tenth of a second late for ever.
KEEP_TIME = "aresample=async=1:min_hard_comp=0.02:first_pts=0"


async def extract(
    canonical: Path,
    out: Path,
    *,
    duration_ms: int,
    timeout_seconds: float = 3600.0,
    on_progress: ffmpeg.Progress | None = None,
) -> None:
    """Write the canonical file's audio to `out` as 16-bit WAV, 16 kHz, mono.

    Sample 0 is the recording's time zero: audio that begins late is preceded by silence, and holes are
    filled with it, so that an engine's times are the recording's times. Memory doesn't grow with length. Of
    two channels that cancel one another out one is taken.

    Raises:
        MediaError, MediaInfrastructure, Undecided: see `services.asr.media.errors`.
    """
    channel = ("pan=mono|c0=c0",) if await asyncio.to_thread(opposed, canonical) else ()
    await ffmpeg.run(
        (
            *ffmpeg.source(canonical),
            *("-map", "0:a:0", "-vn", "-af", ",".join((*channel, KEEP_TIME))),
            *("-ac", "1", "-ar", str(SAMPLE_RATE), "-c:a", "pcm_s16le", "-f", "wav", ffmpeg.target(out)),
        ),
        timeout_seconds=timeout_seconds,
        duration_ms=duration_ms,
        on_progress=on_progress,
    )
