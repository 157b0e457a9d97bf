"""Cutting a span out of the canonical file, exact to the frame at its start."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import structlog

from services.asr.media import fast as copying
from services.asr.media import ffmpeg, smart
from services.asr.media.audio import KEEP_TIME
from services.asr.media.canonical import ENCODE_AUDIO, ENCODE_VIDEO, EVEN_SIZE
from services.asr.media.errors import SpanOutside
from services.asr.media.packets import MOST_REORDERED, opened, timed
from services.asr.media.probe import Media
from services.asr.media.seek import EVERY_FRAME, RUN_UP_SECONDS, filter_time, two_stage
from services.asr.media.shape import Shape, changes, shape_at

log = structlog.get_logger(__name__)

# Offsets are whole milliseconds while frames are not: frame 1 of 30 fps is named 33 though it shows at 33.3.
_ROUNDING = Fraction(1, 2000)
# A frame that is on screen for longer than this is a picture that stands still.
_LONGEST_FRAME = Fraction(1, 4)
# So much sound before the first frame may be left out: no word is heard in it.
_LATEST_PICTURE = Fraction(1, 20)
# The last frame again and again, but for the first of them, which tpad puts at the very time of its original.
_STAYS = ["tpad=stop=-1:stop_mode=clone", "select='isnan(prev_pts)+gt(pts,prev_pts)'"]
# How many times longer than the clip encoding it may take: large pictures at many a second, on few cores.
_SLOWEST_FACTOR = 10.0


@dataclass(frozen=True)
class Cut:
    """What was cut: the clip begins with the frame on screen at the wanted start.

    `start_ms` is when that frame appears, so at most one frame before what was asked, and where the picture
    stands still or has not begun it is what was asked. `end_ms` is exclusive.
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
    fast: bool = False,
    timeout_seconds: float = 1800.0,
    on_progress: ffmpeg.Progress | None = None,
) -> Cut:
    """Write `[start_ms, end_ms)` of the canonical file to `out` (.mp4).

    A start before zero is zero, an end past the recording is its end. Whole groups of frames are copied where
    that can be done, the rest is encoded again. Where sound outlasts the picture, its last frame stays; where
    it begins before it, the first frame is there from the start.

    Args:
        media: the facts of `canonical`.
        encode_all: encode every frame, even those that could be copied.
        fast: encode none; the cut that is returned says where the clip really begins, up to a group of frames
            early, and ends, up to a few frames late. Before the first frame there is nothing to copy: a span
            that begins there is encoded.

    Raises:
        SpanOutside: nothing of the span is inside the recording.
        MediaError, MediaInfrastructure, Undecided: see `services.asr.media.errors`.
    """
    found = await _found(canonical, start_ms, end_ms, media, fast=fast)
    if found.copied:
        copy = smart.copy if media.has_picture else copying.copy_sound
        await copy(
            canonical, out, found.first, found.end, timeout_seconds=timeout_seconds, on_progress=on_progress
        )
        return found.cut
    if media.has_picture and not encode_all and not found.freeze and not found.held:
        try:
            await smart.cut(
                canonical,
                out,
                found.first,
                found.end,
                timeout_seconds=timeout_seconds,
                on_progress=on_progress,
            )
        except smart.NotSpliced as reason:
            log.info("media.cut_encoded", reason=str(reason))
        else:
            return found.cut
    await ffmpeg.run(
        await asyncio.to_thread(_arguments, canonical, out, found, media),
        timeout_seconds=max(timeout_seconds, found.cut.duration_ms / 1000 * _SLOWEST_FACTOR),
        duration_ms=found.cut.duration_ms,
        on_progress=on_progress,
    )
    return found.cut


async def span(canonical: Path, start_ms: int, end_ms: int, *, media: Media, fast: bool = False) -> Cut:
    """Return what `cut` would cut for the same arguments, without cutting. Raises SpanOutside."""
    return (await _found(canonical, start_ms, end_ms, media, fast=fast)).cut


@dataclass(frozen=True)
class _Found:
    """A span inside a recording, in seconds.

    `shown` is when the frame at `first` appeared. `held`: that was long ago, or will be later, so it is shown
    anew at `first`. `freeze`: the picture ends before the sound, its last frame stays. `copied`: nothing is
    encoded.
    """

    first: Fraction
    end: Fraction
    shown: Fraction
    held: bool = False
    freeze: bool = False
    copied: bool = False

    @property
    def cut(self) -> Cut:
        return Cut(round(self.first * 1000), round(self.end * 1000))


async def _found(canonical: Path, start_ms: int, end_ms: int, media: Media, *, fast: bool) -> _Found:
    start, end = max(0, start_ms), min(end_ms, media.duration_ms)
    if end <= start:
        raise SpanOutside(
            f"[{start_ms} ms, {end_ms} ms) has no part inside the recording of {media.duration_ms} ms"
        )
    asked, until = Fraction(start, 1000), Fraction(end, 1000)
    if not media.has_picture:
        return _Found(asked, until, asked, copied=fast)
    shown = await asyncio.to_thread(frame_time, canonical, start)
    late = shown - asked > _LATEST_PICTURE
    if fast and not late:
        first, last = await asyncio.to_thread(copying.span, canonical, asked, until)
        return _Found(first, min(last, Fraction(media.duration_ms, 1000)), first, copied=True)
    # a picture that stands still for long must not pull the sound before the start into the clip, and one
    # that has not begun must not leave out what is heard
    held = late or asked - shown > _LONGEST_FRAME
    freeze = end > media.picture_end_ms or await _stands_still(canonical, end)
    return _Found(asked if held else shown, until, shown, held=held, freeze=freeze)


async def _stands_still(canonical: Path, end_ms: int) -> bool:
    """Tell whether the last frame before a moment was there for long: nobody says how long it lasts."""
    last = await asyncio.to_thread(frame_time, canonical, end_ms - 1)
    return Fraction(end_ms, 1000) - last > _LONGEST_FRAME


def _arguments(canonical: Path, out: Path, found: _Found, media: Media) -> tuple[str, ...]:
    # it must reach the frame that is still on screen at the start; where there is none yet, a seek would land
    # at the first one, behind the sound
    until_shown = found.first - found.shown if found.shown <= found.first else found.first
    run_up = max(RUN_UP_SECONDS, math.ceil(until_shown) + 1)
    shape = _shape_to_keep(canonical, found, run_up) if media.has_picture else None
    filters = [shape.filter(turned=True)] if shape else []
    filters += _shown_anew(found, run_up) if found.held else []
    filters += [*(_STAYS if found.freeze else []), EVEN_SIZE]
    return (
        *two_stage(canonical, found.first, found.end, run_up_seconds=run_up, options=_one_graph(shape)),
        *("-map", "0:v:0?", "-map", "0:a:0?"),
        *(("-vf", ",".join(filters), *EVERY_FRAME) if media.has_picture else ()),
        *("-af", KEEP_TIME, *ENCODE_VIDEO, *ENCODE_AUDIO),
        *(_until(found.end - found.first) if found.freeze else ()),
        *ffmpeg.mp4(out),
    )


def _until(length: Fraction) -> tuple[str, ...]:
    """Return what lets the last frame of a clip stay until its end, however slowly frames come."""
    last = f"if(eq(NEXT_PTS,NOPTS),max(1,round({float(length):.6f}/TB)-PTS),DURATION)"
    # the last frame must be the last packet
    return "-bf", "0", "-bsf:v", f"setts=duration='{last}'"


def _shown_anew(found: _Found, run_up_seconds: int) -> list[str]:
    """Return filters that show at `first` the frame that is on screen then, or the first that will be."""
    first, shown = (
        float(filter_time(time, found.first, run_up_seconds=run_up_seconds))
        for time in (found.first, found.shown - _ROUNDING)
    )
    return [f"select='gte(t,{shown:.6f})'", f"setpts='if(N,PTS,round({first:.6f}/TB))'"]


def _shape_to_keep(canonical: Path, found: _Found, run_up_seconds: int) -> Shape | None:
    """Return the picture's shape at a clip's begin if its encoder changes on the way, else None."""
    if not changes(canonical, found.first - run_up_seconds, found.end):
        return None
    return shape_at(canonical, found.first)


def _one_graph(shape: Shape | None) -> tuple[str, ...]:
    """Return the input options that keep one filter graph through all shapes, where its filters can do that.

    A new graph knows nothing of the frames before: what stands still across the change would be missing.
    """
    return ("-reinit_filter:v", "0") if shape and not shape.rotation else ()


def frame_time(canonical: Path, at_ms: int) -> Fraction:
    """Return when the frame that is on screen at `at_ms` appears, in seconds on the canonical clock.

    Reads packets only, decodes nothing. Before the first frame the answer is the first frame's time.
    """
    limit = Fraction(at_ms, 1000) + _ROUNDING
    with opened(canonical) as container:
        best: Fraction | None = None
        earliest: Fraction | None = None
        later = 0
        for time, _ in timed(container, container.streams.video[0], Fraction(at_ms, 1000)):
            if time <= limit and (best is None or time > best):
                best = time
            if earliest is None or time < earliest:
                earliest = time
            later += time > limit
            if later > MOST_REORDERED:
                break
    found = best if best is not None else earliest
    if found is None:
        raise SpanOutside(f"there is no picture at {at_ms} ms")
    return max(found, Fraction(0))
