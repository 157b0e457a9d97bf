"""Cuts where the sound has begun and the picture hasn't: what is said there is in the clip."""

from pathlib import Path

import pytest

from services.asr.media import audio, canonical, cut
from services.asr.media.canonical import Canonical
from services.asr.media.probe import probe
from services.asr.media.thumbnail import thumbnail
from tests.integration.media.recordings import frame_times, onsets, record, remake

LATE = 5.0
BEEPS = (0.5, 3.25, 7.0, 10.5)


async def late_picture(folder: Path, suffix: str) -> Canonical:
    """Record sound whose picture begins five seconds later, as a camera's that is switched on late."""
    whole = record(folder / "whole.mp4", beeps=BEEPS)
    both = ("-i", f"file:{whole}", "-map", "0:v", "-map", "1:a", "-c", "copy")
    live = remake(whole, folder / f"live.{suffix}", *both, before=("-itsoffset", str(LATE)))
    made = await canonical.make(live, folder / "canonical.mp4", await probe(live))
    assert frame_times(made.path)[0][1] == pytest.approx(LATE, abs=0.2)
    return made


@pytest.mark.parametrize("suffix", ["mp4", "flv", "ts", "mkv"])
async def test_all_its_sound_is_in_the_clip_under_the_first_frame(tmp_path: Path, suffix: str) -> None:
    made = await late_picture(tmp_path, suffix)
    times = dict(frame_times(made.path))
    for fast, start, end in ((False, 0, 4000), (True, 200, 9000), (False, 3000, 8000)):
        done = await cut.cut(made.path, tmp_path / "clip.mp4", start, end, media=made.media, fast=fast)
        assert (done.start_ms, done.end_ms) == (start, end)
        assert done == await cut.span(made.path, start, end, media=made.media, fast=fast)
        shown = frame_times(tmp_path / "clip.mp4")
        assert shown[0] == (0, 0.0)
        assert [number for number, _ in shown] == list(range(len(shown)))
        for number, time in shown[1:]:
            assert time == pytest.approx(times[number] - start / 1000, abs=0.002)
        clip = await probe(tmp_path / "clip.mp4")
        assert clip.duration_ms == pytest.approx(end - start, abs=60)
        await audio.extract(tmp_path / "clip.mp4", tmp_path / "a.wav", duration_ms=clip.duration_ms)
        inside = [beep - start / 1000 for beep in BEEPS if start <= beep * 1000 < end]
        assert onsets(tmp_path / "a.wav") == pytest.approx(inside, abs=0.05)
        await thumbnail(tmp_path / "clip.mp4", tmp_path / "still.jpg", done.duration_ms // 3)


async def test_however_late_it_is(tmp_path: Path) -> None:
    sound = record(tmp_path / "sound.mp4", seconds=50, beeps=(20.5, 23.0, 44.0))
    both = ("-i", f"file:{sound}", "-map", "0:v", "-map", "1:a", "-c", "copy", "-t", "50")
    live = remake(sound, tmp_path / "live.mp4", *both, before=("-itsoffset", "45"))
    made = await canonical.make(live, tmp_path / "canonical.mp4", await probe(live))
    done = await cut.cut(made.path, tmp_path / "clip.mp4", 20_000, 24_000, media=made.media)
    await audio.extract(tmp_path / "clip.mp4", tmp_path / "a.wav", duration_ms=done.duration_ms)
    assert onsets(tmp_path / "a.wav") == pytest.approx([0.5, 3.0], abs=0.05)
    assert frame_times(tmp_path / "clip.mp4") == [(0, 0.0)]


async def test_behind_its_first_frame_it_is_cut_like_any_other(tmp_path: Path) -> None:
    made = await late_picture(tmp_path, "mp4")
    times = frame_times(made.path)
    done = await cut.cut(made.path, tmp_path / "clip.mp4", 6000, 9500, media=made.media)
    first = max(number for number, time in times if time <= 6.0005)
    assert frame_times(tmp_path / "clip.mp4")[0][0] == first
    assert done.start_ms == round(dict(times)[first] * 1000)
