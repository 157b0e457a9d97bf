"""Cutting a span out of the canonical file, exact to the frame at its start."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import structlog

from services.asr.media import ffmpeg, smart
from services.asr.media.audio import KEEP_TIME
from services.asr.media.canonical import ENCODE_AUDIO, ENCODE_VIDEO
from services.asr.media.errors import SpanOutside
from services.asr.media.formats import OPEN_OPTIONS
from services.asr.media.probe import Media
from services.asr.media.seek import two_stage

log = structlog.get_logger(__name__)

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
    encode_all: bool = False,
    timeout_seconds: float = 1800.0,
    on_progress: ffmpeg.Progress | None = None,
) -> Cut:
    """Write `[start_ms, end_ms)` of the canonical file to `out` (.mp4).

    A start before zero is zero, an end past the recording is its end. Whole groups of frames are copied where
    that can be done, the rest is encoded again.

    Args:
        media: the facts of `canonical`.
        encode_all: encode every frame, even those that could be copied.

    Raises:
        SpanOutside: nothing of the span is inside the recording.
        MediaError, MediaInfrastructure: see `services.asr.media.errors`.
    """
    first, end = await _span(canonical, start_ms, end_ms, media)
    span = (first, Fraction(end, 1000))
    done = Cut(round(first * 1000), end)
    if media.has_picture and not encode_all:
        try:
            await smart.cut(canonical, out, *span, timeout_seconds=timeout_seconds, on_progress=on_progress)
        except smart.NotSpliced as reason:
            log.info("media.cut_encoded", reason=str(reason))
        else:
            return done
    await _encode(canonical, out, span, timeout_seconds=timeout_seconds, on_progress=on_progress)
    return done


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


async def _encode(
    canonical: Path,
    out: Path,
    span: tuple[Fraction, Fraction],
    *,
    timeout_seconds: float,
    on_progress: ffmpeg.Progress | None,
) -> None:
    first, end = span
    await ffmpeg.run(
        (
            *two_stage(canonical, first, end),
            *("-map", "0:v:0?", "-map", "0:a:0?", "-af", KEEP_TIME, *ENCODE_VIDEO, *ENCODE_AUDIO),
            *("-map_metadata", "-1", "-movflags", "+faststart", "-f", "mp4", ffmpeg.target(out)),
        ),
        timeout_seconds=timeout_seconds,
        duration_ms=round((end - first) * 1000),
        on_progress=on_progress,
    )
