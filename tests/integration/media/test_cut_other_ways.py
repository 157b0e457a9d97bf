"""Cuts that copy everything and say where they begin, and exact cuts of what can't be spliced."""

import asyncio
import random
from fractions import Fraction
from pathlib import Path

import av
import pytest

from libs.common import child
from services.asr.media import audio, canonical, cut, ffmpeg, smart
from services.asr.media.canonical import Canonical
from services.asr.media.errors import DiskFull, FfmpegKilled, InputGone, SpanOutside
from services.asr.media.probe import probe
from tests.integration.media.recordings import frame_numbers, frame_times, onsets, record, remake

HEVC = ("-c:v", "libx265", "-preset", "ultrafast", "-tag:v", "hvc1", "-x265-params", "log-level=error")


async def canonical_of(recording: Path) -> Canonical:
    return await canonical.make(
        recording, recording.with_name(f"{recording.stem}.canonical.mp4"), await probe(recording)
    )


@pytest.mark.parametrize(
    ("suffix", "fps", "group"), [("mp4", "25", 2), ("ts", "25", 2), ("flv", "30000/1001", 3)]
)
async def test_a_fast_cut_begins_with_a_key_frame_and_says_so(
    tmp_path: Path, suffix: str, fps: str, group: int
) -> None:
    recording = record(
        tmp_path / f"live.{suffix}", fps=fps, gop_seconds=group, beeps=(0.5, 3.25, 5.2, 7.0, 10.5)
    )
    made = await canonical_of(recording)
    frames = frame_times(made.path)
    done = await cut.cut(made.path, tmp_path / "clip.mp4", 4900, 8600, media=made.media, fast=True)
    assert done == await cut.span(made.path, 4900, 8600, media=made.media, fast=True)
    numbers = frame_numbers(tmp_path / "clip.mp4")
    begins = next(time for number, time in frames if number == numbers[0])
    assert done.start_ms == pytest.approx(begins * 1000, abs=1)
    assert 4900 - group * 1001 - 1 <= done.start_ms <= 4900
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    last = max(number for number, time in frames if time < 8.6)
    assert last <= numbers[-1] <= last + 4
    assert done.end_ms == pytest.approx(frames[numbers[-1] + 1][1] * 1000, abs=1)
    clip = await canonical.make(tmp_path / "clip.mp4", tmp_path / "c.mp4", await probe(tmp_path / "clip.mp4"))
    await audio.extract(clip.path, tmp_path / "a.wav", duration_ms=clip.media.duration_ms)
    expected = [beep - done.start_ms / 1000 for beep in (5.2, 7.0)]
    assert onsets(tmp_path / "a.wav")[-2:] == pytest.approx(expected, abs=0.05)


async def test_a_fast_cut_from_a_key_frame_begins_there(tmp_path: Path) -> None:
    made = await canonical_of(record(tmp_path / "live.mp4"))
    for start in (0, 2000, 10_000):
        done = await cut.cut(
            made.path, tmp_path / "clip.mp4", start, start + 900, media=made.media, fast=True
        )
        assert done.start_ms == start
        assert frame_numbers(tmp_path / "clip.mp4")[0] == start // 40


async def test_a_fast_cut_never_begins_where_no_decoder_can(tmp_path: Path) -> None:
    """With open groups only the recording's first frame is a true restart point."""
    opened = ("-x264-params", "open-gop=1:bframes=3:keyint=50:min-keyint=50:scenecut=0")
    made = await canonical_of(record(tmp_path / "open.mp4", seconds=8, output=opened))
    done = await cut.cut(made.path, tmp_path / "clip.mp4", 5000, 6000, media=made.media, fast=True)
    numbers = frame_numbers(tmp_path / "clip.mp4")
    assert (done.start_ms, numbers[0]) == (0, 0)
    assert numbers == list(range(len(numbers)))


async def test_a_fast_cut_takes_no_frame_whose_reference_it_leaves_out(tmp_path: Path) -> None:
    """An end in whole milliseconds may be just behind the frame that it means."""
    made = await canonical_of(record(tmp_path / "live.ts", seconds=6, fps="30000/1001"))
    ends = {number: (time, round(time * 1000)) for number, time in frame_times(made.path)}
    for number in range(62, 74):
        time, end = ends[number]
        if end <= time * 1000:
            continue
        await cut.cut(made.path, tmp_path / "clip.mp4", 1000, end, media=made.media, fast=True)
        numbers = frame_numbers(tmp_path / "clip.mp4")
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), end
        assert number - 1 <= numbers[-1] <= number + 4, end


async def test_fast_cuts_stay_inside_the_recording(tmp_path: Path) -> None:
    made = await canonical_of(record(tmp_path / "live.mp4", seconds=4))
    done = await cut.cut(made.path, tmp_path / "clip.mp4", -500, 99_000, media=made.media, fast=True)
    assert (done.start_ms, done.end_ms) == (0, made.media.duration_ms)
    assert frame_numbers(tmp_path / "clip.mp4") == list(range(100))
    with pytest.raises(SpanOutside):
        await cut.cut(made.path, tmp_path / "clip.mp4", 4000, 5000, media=made.media, fast=True)


async def test_sound_without_picture_can_be_copied(tmp_path: Path) -> None:
    sound = record(tmp_path / "radio.m4a", beeps=(0.5, 3.25, 7.0), output=("-vn", "-map", "-0:v"))
    made = await canonical_of(sound)
    done = await cut.cut(made.path, tmp_path / "clip.mp4", 3000, 5000, media=made.media, fast=True)
    await audio.extract(tmp_path / "clip.mp4", tmp_path / "a.wav", duration_ms=done.duration_ms)
    assert onsets(tmp_path / "a.wav") == pytest.approx([3.25 - done.start_ms / 1000], abs=0.05)


@pytest.mark.parametrize(("suffix", "fps"), [("mp4", "25"), ("ts", "30000/1001"), ("mkv", "25")])
async def test_long_cuts_of_hevc_copy_whole_groups_and_are_exact(
    tmp_path: Path, suffix: str, fps: str
) -> None:
    whole = record(tmp_path / "whole.mp4", seconds=16, fps=fps, gop_seconds=8)
    closed = (*HEVC[:-1], f"{HEVC[-1]}:open-gop=0:keyint=25:min-keyint=25:scenecut=0", "-c:a", "copy")
    made = await canonical_of(remake(whole, tmp_path / f"live.{suffix}", *closed))
    frames = frame_times(made.path)
    chance = random.Random(f"spliced{suffix}")
    clip = tmp_path / "clip.mp4"
    for _ in range(3):
        start = chance.randrange(0, 3_000)
        end = start + chance.randrange(11_000, 12_900)
        done = await cut.cut(made.path, clip, start, end, media=made.media)
        assert smart.plan(made.path, cut.frame_time(made.path, start), Fraction(end, 1000)) is not None
        shown = frame_times(clip)
        numbers = [number for number, _ in shown]
        assert numbers == list(range(max(n for n, t in frames if t <= (start + 0.5) / 1000), numbers[-1] + 1))
        assert abs(numbers[-1] - max(n for n, time in frames if time < end / 1000)) <= 1
        times = dict(frames)
        assert max(abs(t - times[n] + done.start_ms / 1000) for n, t in shown) < 0.002
        complaints = await child.run(
            [ffmpeg.find(), "-v", "warning", "-i", str(clip), "-f", "null", "-"], timeout_seconds=60
        )
        assert (complaints.returncode, complaints.stderr_text) == (0, "")
        with av.open(str(clip)) as container:
            assert container.streams.video[0].codec_context.codec_tag == "hvc1"


@pytest.mark.parametrize("suffix", ["mp4", "ts", "mkv"])
async def test_short_cuts_of_hevc_are_exact_to_the_frame_though_all_of_it_is_encoded(
    tmp_path: Path, suffix: str
) -> None:
    whole = record(tmp_path / "whole.mp4", seconds=16, gop_seconds=8)
    hevc = remake(whole, tmp_path / f"live.{suffix}", *HEVC, "-g", "200", "-c:a", "copy")
    made = await canonical_of(hevc)
    assert (made.media.video_codec, made.copied) == ("hevc", True)
    frames = frame_times(made.path)
    chance = random.Random(suffix)
    for _ in range(4):
        start = chance.randrange(0, 13_000)
        end = start + chance.randrange(300, 2500)
        await cut.cut(made.path, tmp_path / "clip.mp4", start, end, media=made.media)
        numbers = frame_numbers(tmp_path / "clip.mp4")
        assert numbers[0] == max(n for n, time in frames if time <= (start + 0.5) / 1000)
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert abs(numbers[-1] - max(n for n, time in frames if time < end / 1000)) <= 1
    done = await cut.cut(made.path, tmp_path / "clip.mp4", 9500, 11_000, media=made.media, fast=True)
    assert frame_numbers(tmp_path / "clip.mp4")[0] == next(
        n for n, time in frames if time == pytest.approx(done.start_ms / 1000, abs=0.001)
    )


@pytest.mark.parametrize("fast", [True, False])
async def test_a_clip_that_the_disk_has_no_room_for_is_the_machines_trouble(
    tmp_path: Path, fast: bool
) -> None:
    made = await canonical_of(record(tmp_path / "live.mp4"))
    out = tmp_path / "clip.mp4"
    out.symlink_to("/dev/full")
    with pytest.raises(DiskFull) as full:
        await cut.cut(made.path, out, 2500, 9600, media=made.media, fast=fast)
    assert str(tmp_path) not in str(full.value)
    assert "Traceback" not in str(full.value)
    assert await asyncio.to_thread(lambda: list(tmp_path.glob("clip.*"))) == [out]


@pytest.mark.parametrize("fast", [True, False])
async def test_a_join_that_is_killed_is_charged_and_nothing_is_encoded_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast: bool
) -> None:
    made = await canonical_of(record(tmp_path / "live.mp4"))
    killed = tmp_path / "killed"
    killed.write_text("#!/bin/sh\nkill -KILL $$\n")
    killed.chmod(0o755)
    monkeypatch.setattr(smart, "PYTHON", str(killed))
    with pytest.raises(FfmpegKilled):
        await cut.cut(made.path, tmp_path / "clip.mp4", 2500, 9600, media=made.media, fast=fast)


async def test_a_join_that_breaks_says_why_without_a_trace_or_a_folder(tmp_path: Path) -> None:
    made = await canonical_of(record(tmp_path / "live.mp4"))
    with pytest.raises(InputGone) as failed:
        await cut.cut(made.path, tmp_path / "none" / "clip.mp4", 2500, 9600, media=made.media, fast=True)
    assert "No such file" in str(failed.value)
    assert str(tmp_path) not in str(failed.value)
    assert "Traceback" not in str(failed.value)
