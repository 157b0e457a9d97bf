"""Cuts of screens and slides, whose recorder stores a frame only when something moves, once in seconds."""

from pathlib import Path

import pytest

from services.asr.media import canonical, cut
from services.asr.media.canonical import Canonical
from services.asr.media.probe import probe
from services.asr.slicing.drafts.facts import measure
from tests.integration.media.recordings import frame_times, record, remake

EVERY = 50
BFRAMES = ("-c:v", "libx264", "-preset", "veryfast", "-bf", "3", "-g", "250")
SOUND = {"mp4": "copy", "mkv": "libopus"}


async def slides(folder: Path, suffix: str) -> Canonical:
    """Record a frame each two seconds; others may lie between it and the next in the order of decoding."""
    whole = record(folder / "whole.mp4", seconds=24)
    slow = ("-vf", f"select='not(mod(n,{EVERY}))'", "-fps_mode", "vfr", *BFRAMES, "-c:a", SOUND[suffix])
    live = remake(whole, folder / f"live.{suffix}", *slow)
    made = await canonical.make(live, folder / "canonical.mp4", await probe(live))
    assert [number for number, _ in frame_times(made.path)] == list(range(0, 600, EVERY))
    return made


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
async def test_a_clip_begins_with_the_frame_that_is_on_screen(tmp_path: Path, suffix: str) -> None:
    made = await slides(tmp_path, suffix)
    times = frame_times(made.path)
    for at in range(500, 24_000, 700):
        expected = max((time for _, time in times if time <= (at + 0.5) / 1000), default=times[0][1])
        assert float(cut.frame_time(made.path, at)) == pytest.approx(expected, abs=0.001), at
    for start, end in ((9100, 11_900), (15_000, 19_500)):
        await cut.cut(made.path, tmp_path / "clip.mp4", start, end, media=made.media)
        shown = max(number for number, time in times if time <= start / 1000)
        between = [number for number, time in times if start / 1000 < time < end / 1000]
        assert [number for number, _ in frame_times(tmp_path / "clip.mp4")] == [shown, *between]


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
async def test_its_last_frame_stays_until_its_end_for_a_draft_to_have_all_that_is_said(
    tmp_path: Path, suffix: str
) -> None:
    made = await slides(tmp_path, suffix)
    for start, end in ((3000, 9800), (10_500, 11_500)):
        await cut.cut(made.path, tmp_path / "clip.mp4", start, end, media=made.media)
        assert float(measure(tmp_path / "clip.mp4").picture) == pytest.approx((end - start) / 1000, abs=0.05)
