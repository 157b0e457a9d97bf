"""Recordings whose sound or picture begins after all that a demuxer looks at by itself."""

from pathlib import Path

import pytest

from services.asr.media import audio, canonical
from services.asr.media.errors import NoAudioTrack
from services.asr.media.probe import probe
from tests.integration.media.recordings import frame_times, onsets, record, remake

BEEPS = (0.5, 10.25)


async def heard(live: Path) -> list[float]:
    made = await canonical.make(live, live.with_name("c.mp4"), await probe(live))
    await audio.extract(made.path, live.with_name("a.wav"), duration_ms=made.media.duration_ms)
    return onsets(live.with_name("a.wav"))


@pytest.mark.parametrize("late", [8, 40])
async def test_sound_that_begins_late_in_a_transport_stream_is_heard(tmp_path: Path, late: int) -> None:
    whole = record(tmp_path / "whole.mp4", seconds=50, beeps=BEEPS)
    sound = ("-itsoffset", str(late), "-i", f"file:{whole}", "-map", "0:v", "-map", "1:a", "-c", "copy")
    live = remake(whole, tmp_path / "live.ts", *sound)
    assert await heard(live) == pytest.approx([late + beep for beep in BEEPS], abs=0.05)


@pytest.mark.parametrize("late", [8, 40])
async def test_a_picture_that_begins_late_in_a_transport_stream_is_seen(tmp_path: Path, late: int) -> None:
    whole = record(tmp_path / "whole.mp4", seconds=50, beeps=BEEPS)
    picture = ("-i", f"file:{whole}", "-map", "0:v", "-map", "1:a", "-c", "copy")
    live = remake(whole, tmp_path / "live.ts", *picture, before=("-itsoffset", str(late)))
    assert await heard(live) == pytest.approx(BEEPS, abs=0.05)
    assert frame_times(tmp_path / "c.mp4")[0] == (0, pytest.approx(late, abs=0.2))


async def test_a_recording_without_any_sound_says_so_after_a_longer_look(tmp_path: Path) -> None:
    silent = record(tmp_path / "silent.ts", seconds=12, output=("-an", "-map", "-0:a", "-map", "-1:a"))
    with pytest.raises(NoAudioTrack):
        await probe(silent)
