"""Copying a span without encoding anything: quick, and honest about where it really begins and ends."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from pathlib import Path

from av.container import InputContainer
from av.video.stream import VideoStream

from services.asr.media import ffmpeg, parameter_sets
from services.asr.media.nal import NotUnderstood
from services.asr.media.packets import MOST_REORDERED, opened, timed

# Offsets are whole milliseconds while frames are not.
_ROUNDING = Fraction(1, 2000)
_BEFORE = Fraction(1, 1000)
# Farther back no seek is tried: some recorders write a single restart point, at the beginning.
_FARTHEST_SECONDS = 600


def span(canonical: Path, start: Fraction, end: Fraction) -> tuple[Fraction, Fraction]:
    """Return what a copy of the picture of `[start, end)` really spans, in seconds on the canonical clock.

    It begins with the last frame at or before `start` from which a decoder can go on (within ten minutes;
    else the first frame), and ends before the first frame behind `end` that none of its frames needs. Reads
    packets only.
    """
    with opened(canonical) as container:
        stream = container.streams.video[0]
        first = _begin(container, stream, start + _ROUNDING)
        return first, _end(container, stream, first, end)


def _begin(container: InputContainer, stream: VideoStream, limit: Fraction) -> Fraction:
    begins = _beginnings(stream)
    to = limit
    while to > max(Fraction(0), limit - _FARTHEST_SECONDS):
        best: Fraction | None = None
        landed: Fraction | None = None
        for time, packet in timed(container, stream, to):
            if not packet.is_keyframe:
                continue
            landed = time if landed is None else landed
            if time > to:
                break
            if begins(bytes(packet)):
                best = time
        if best is not None:
            return max(Fraction(0), best)
        if landed is None or landed >= to:
            break
        to = landed - _BEFORE
    return max(Fraction(0), next((time for time, _ in timed(container, stream, Fraction(0))), Fraction(0)))


def _beginnings(stream: VideoStream) -> Callable[[bytes], bool]:
    """Return what tells of a key frame whether a clip can begin there; where nothing is known, all can."""
    context = stream.codec_context
    try:
        return parameter_sets.read(context.name, context.extradata).begins
    except NotUnderstood:
        return lambda _sample: True


def _end(container: InputContainer, stream: VideoStream, first: Fraction, end: Fraction) -> Fraction:
    """Return the time of the first frame at or behind `end` that begins nothing but what comes after it.

    Where there is none it is the end of the last frame, or `end` if that is later.
    """
    times: list[Fraction] = []
    last = first
    later = 0
    for time, packet in timed(container, stream, first):
        if time >= first:
            times.append(time)
            last = max(last, time + Fraction(packet.duration or 0) * packet.time_base)
        later += time > end
        # as many again: the end may be behind the last of those that are needed
        if later > 2 * MOST_REORDERED:
            break
    earliest_left = list(accumulate(reversed(times), min))[::-1]
    latest_before = [first, *accumulate(times, max)]
    for left, before in zip(earliest_left, latest_before, strict=False):
        if left >= end - _ROUNDING and left > before:
            return left
    return max(last, end)


async def copy_sound(
    canonical: Path,
    out: Path,
    first: Fraction,
    end: Fraction,
    *,
    timeout_seconds: float,
    on_progress: ffmpeg.Progress | None = None,
) -> None:
    """Write the packets of `[first, end)` of a recording without picture to `out` as they are.

    Raises:
        MediaError, MediaInfrastructure, Undecided: see `services.asr.media.errors`.
    """
    await ffmpeg.run(
        (
            *("-ss", f"{float(first):.6f}", *ffmpeg.source(canonical), "-t", f"{float(end - first):.6f}"),
            *("-map", "0:a:0", "-c", "copy", "-avoid_negative_ts", "make_zero", *ffmpeg.mp4(out)),
        ),
        timeout_seconds=timeout_seconds,
        duration_ms=round((end - first) * 1000),
        on_progress=on_progress,
    )
