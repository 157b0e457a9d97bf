"""Seeking to an exact frame: coarse in the input, exact among the decoded frames."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from services.asr.media import ffmpeg

# Decoding starts this long before the cut, so that a seek that lands late can't hit the cut itself.
RUN_UP_SECONDS = 15
# Each at its own time: on the grid of a frame rate that the recording's encoder has left on the way, some
# frames would fall together. One that isn't later than the frame before it comes a tick behind it.
EVERY_FRAME = ("-fps_mode", "vfr", "-enc_time_base:v", "demux")


def two_stage(
    canonical: Path,
    first: Fraction,
    end: Fraction,
    *,
    run_up_seconds: int = RUN_UP_SECONDS,
    options: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return ffmpeg's arguments that open `canonical` and take `[first, end)` of it.

    Microseconds are rounded down, so that the first frame is never missed by a rounding. `options` are those
    of the input.
    """
    start_us, end_us = int(first * 1_000_000), int(end * 1_000_000)
    coarse_us = _coarse_us(first, run_up_seconds)
    return (
        # a seek to the beginning would leave out the sound before the first picture
        *(("-ss", _seconds(coarse_us)) if coarse_us else ()),
        *options,
        *ffmpeg.source(canonical),
        *("-ss", _seconds(start_us - coarse_us), "-t", _seconds(end_us - start_us)),
    )


def filter_time(time: Fraction, first: Fraction, *, run_up_seconds: int = RUN_UP_SECONDS) -> Fraction:
    """Return what a time of the recording is for filters, in seconds, where `two_stage` opens it at `first`.

    The run-up must be the same.
    """
    return time - Fraction(_coarse_us(first, run_up_seconds), 1_000_000)


def _coarse_us(first: Fraction, run_up_seconds: int) -> int:
    return max(0, int(first * 1_000_000) - run_up_seconds * 1_000_000)


def _seconds(microseconds: int) -> str:
    return f"{microseconds // 1_000_000}.{microseconds % 1_000_000:06d}"
