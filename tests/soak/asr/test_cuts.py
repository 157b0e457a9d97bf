"""A hundred random cuts for each container and length of group: every one begins and ends at its frame."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from services.asr.media import canonical, cut
from services.asr.media.probe import probe
from tests.integration.media.changing import Stretch
from tests.integration.media.cut_checks import changing, check_cut
from tests.integration.media.recordings import frame_numbers, frame_times, record

CUTS = 100
SECONDS = 48.0
_LONGEST_MS = 20_000


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fast", [False, True], ids=["exact", "fast"])
@pytest.mark.parametrize("group", [2, 8])
@pytest.mark.parametrize("suffix", ["mp4", "flv", "ts", "mkv"])
async def test_random_cuts_are_within_a_frame(
    tmp_path: Path, share: float, tell: Callable[[object], None], suffix: str, group: int, fast: bool
) -> None:
    fps = random.Random(f"{suffix}{group}").choice(["25", "30000/1001", "24000/1001", "30"])
    recording = record(
        tmp_path / f"live.{suffix}", seconds=SECONDS, fps=fps, gop_seconds=group, beeps=(0.5, 20.0, 40.0)
    )
    made = await canonical.make(recording, tmp_path / "c.mp4", await probe(recording))
    frames = frame_times(made.path)
    chance = random.Random(f"{suffix}{group}{fast}")
    worst = 0
    for _ in range(max(1, round(CUTS * share))):
        start = chance.randrange(0, made.media.picture_end_ms - 300)
        end = start + round(200 * (_LONGEST_MS / 200) ** chance.random())
        worst = max(worst, await _error(made, frames, (start, end), tmp_path / "clip.mp4", fast=fast))
    tell(
        f"{suffix}, groups of {group} s, {fps} fps, {'fast' if fast else 'exact'}: worst error {worst} frames"
    )


async def _error(
    made: canonical.Canonical,
    frames: list[tuple[int, float]],
    span: tuple[int, int],
    out: Path,
    *,
    fast: bool,
) -> int:
    """Cut, compare every frame, and return how many frames the end is off."""
    done = await cut.cut(made.path, out, *span, media=made.media, fast=fast)
    numbers = await asyncio.to_thread(frame_numbers, out)
    first = max(number for number, time in frames if time <= (done.start_ms + 0.5) / 1000)
    assert numbers[0] == first, span
    assert numbers == list(range(numbers[0], numbers[-1] + 1)), span
    if not fast:
        assert first == max(number for number, time in frames if time <= (span[0] + 0.5) / 1000), span
    until = min(done.end_ms, made.media.picture_end_ms)
    last = max(number for number, time in frames if time <= (until - 1) / 1000)
    error = abs(numbers[-1] - last)
    assert error <= 1, (span, numbers[-1], last)
    return error


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("suffix", [".flv", ".ts"])
async def test_random_cuts_are_exact_where_the_encoder_changes(
    tmp_path: Path, share: float, tell: Callable[[object], None], suffix: str
) -> None:
    """Half of the begins and ends are within two frames of a change."""
    recording = await changing(
        tmp_path,
        suffix,
        [
            Stretch(200, gop=50),
            Stretch(250, size=(312, 180), gop=40),
            Stretch(180, fps="30", gop=60, bframes=3),
            Stretch(125, bframes=0, options=("-profile:v", "baseline"), hole=Fraction(3, 2)),
            Stretch(240, fps="30000/1001", gop=30, size=(416, 240)),
        ],
    )
    chance = random.Random(suffix)
    media, count = recording.made.media, max(1, round(CUTS * share))

    def at(first: int, last: int) -> int:
        near = [round(change * 1000) + chance.randrange(-80, 80) for change in recording.changes]
        places = [place for place in near if first <= place < last]
        return chance.choice(places) if places and chance.random() < 0.5 else chance.randrange(first, last)

    for _ in range(count):
        start = at(0, media.picture_end_ms - 300)
        await check_cut(recording, tmp_path / "clip.mp4", (start, at(start + 150, media.picture_end_ms)))
    tell(f"{suffix}, four changes: {count} cuts, every frame once at its time")
