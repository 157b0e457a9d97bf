"""Cutting a span out of the canonical file, exact to the frame at its start."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av

from services.asr.media import ffmpeg
from services.asr.media.audio import KEEP_TIME
from services.asr.media.canonical import ENCODE_AUDIO, ENCODE_VIDEO
from services.asr.media.errors import SpanOutside
from services.asr.media.probe import OPEN_OPTIONS, Media

# Decoding starts this long before the cut, so that a seek that lands late can't hit the cut itself.
_RUN_UP_SECONDS = 15
# Offsets are whole milliseconds while frames are not: frame 1 of 30 fps is named 33 though it shows at 33.3.
_ROUNDING = Fraction(1, 2000)
# The reorder window of B-frames is shorter than this.
_LOOK_AHEAD_SECONDS = 1


@dataclass(frozen=True)
class Cut:
    """What was cut: the clip begins with the frame on screen at the wanted start.

    `start_ms` is when that frame appears, so at most one frame before what was asked; `end_ms` is exclusive.
    """

    start_ms: int
    end_ms: int

    @property
    def duration_ms(self) -> int:
        """The clip's length."""
        return self.end_ms - self.start_ms


async def cut(
    canonical: Path,
    out: Path,
    start_ms: int,
    end_ms: int,
    *,
    media: Media,
    timeout_seconds: float = 1800.0,
    on_progress: ffmpeg.Progress | None = None,
) -> Cut:
    """Write `[start_ms, end_ms)` of the canonical file to `out` (.mp4), encoded again.

    A start before zero is zero, an end past the recording is its end.

    Args:
        media: the facts of `canonical`.

    Raises:
        SpanOutside: nothing of the span is inside the recording.
        MediaError, MediaInfrastructure: see `services.asr.media.errors`.
    """
    first, end = await _span(canonical, start_ms, end_ms, media)
    await ffmpeg.run(
        _arguments(canonical, out, first, Fraction(end, 1000)),
        timeout_seconds=timeout_seconds,
        duration_ms=end - round(first * 1000),
        on_progress=on_progress,
    )
    return Cut(round(first * 1000), end)


async def span(canonical: Path, start_ms: int, end_ms: int, *, media: Media) -> Cut:
    """Return what `cut` would cut for the same arguments, without cutting. Raises SpanOutside."""
    first, end = await _span(canonical, start_ms, end_ms, media)
    return Cut(round(first * 1000), end)


async def _span(canonical: Path, start_ms: int, end_ms: int, media: Media) -> tuple[Fraction, int]:
    limit = media.picture_end_ms if media.has_picture else media.duration_ms
    start, end = max(0, start_ms), min(end_ms, limit)
    if end <= start:
        raise SpanOutside(f"[{start_ms} ms, {end_ms} ms) has no part inside the recording of {limit} ms")
    if not media.has_picture:
        return Fraction(start, 1000), end
    return await asyncio.to_thread(frame_time, canonical, start), end


def frame_time(canonical: Path, at_ms: int) -> Fraction:
    """Return when the frame that is on screen at `at_ms` appears, in seconds on the canonical clock.

    Reads packets only, decodes nothing. Before the first frame the answer is the first frame's time.
    """
    limit = Fraction(at_ms, 1000) + _ROUNDING
    with av.open(f"file:{canonical}", options=OPEN_OPTIONS) as container:
        stream = container.streams.video[0]
        origin = Fraction(container.start_time or 0, av.time_base)
        container.seek(int((Fraction(at_ms, 1000) + origin) * av.time_base), backward=True)
        best: Fraction | None = None
        earliest: Fraction | None = None
        for packet in container.demux(stream):
            if packet.pts is None or packet.time_base is None:
                continue
            time = packet.pts * packet.time_base - origin
            if time <= limit and (best is None or time > best):
                best = time
            if earliest is None or time < earliest:
                earliest = time
            if time > limit + _LOOK_AHEAD_SECONDS:
                break
    found = best if best is not None else earliest
    if found is None:
        raise SpanOutside(f"there is no picture at {at_ms} ms")
    return max(found, Fraction(0))


def _arguments(canonical: Path, out: Path, first: Fraction, end: Fraction) -> tuple[str, ...]:
    """Seek in two stages: coarse in the input, exact among the decoded frames.

    Microseconds are rounded down, so that the first frame is never missed by a rounding.
    """
    start_us = int(first * 1_000_000)
    coarse_us = max(0, start_us - _RUN_UP_SECONDS * 1_000_000)
    return (
        *("-ss", _seconds(coarse_us)),
        *ffmpeg.source(canonical),
        *("-ss", _seconds(start_us - coarse_us), "-t", _seconds(int(end * 1_000_000) - start_us)),
        *("-map", "0:v:0?", "-map", "0:a:0?", "-af", KEEP_TIME, *ENCODE_VIDEO, *ENCODE_AUDIO),
        *("-map_metadata", "-1", "-movflags", "+faststart", "-f", "mp4", ffmpeg.target(out)),
    )


def _seconds(microseconds: int) -> str:
    return f"{microseconds // 1_000_000}.{microseconds % 1_000_000:06d}"
