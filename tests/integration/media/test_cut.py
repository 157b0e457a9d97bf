"""Cuts: exact to the frame, inside the recording, and in step with their sound."""

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from samples.frame_code import frame_number
from services.asr.media import audio, canonical, cut, smart
from services.asr.media.canonical import Canonical
from services.asr.media.errors import SpanOutside
from services.asr.media.probe import probe
from services.asr.media.thumbnail import thumbnail
from tests.integration.media.recordings import frame_numbers, frame_times, onsets, record, remake


async def canonical_of(recording: Path) -> Canonical:
    return await canonical.make(
        recording, recording.with_name(f"{recording.stem}.canonical.mp4"), await probe(recording)
    )


def shown_at(frames: list[tuple[int, float]], at_ms: int) -> int:
    """Return the number of the frame on screen at a time; half a millisecond of rounding is allowed."""
    return max((number, time) for number, time in frames if time <= (at_ms + 0.5) / 1000)[0]


@pytest.mark.parametrize(
    ("suffix", "fps", "gop_seconds"),
    [("mp4", "25", 2), ("flv", "25", 2), ("ts", "25", 8), ("mkv", "30000/1001", 2), ("mp4", "24000/1001", 8)],
)
async def test_random_cuts_begin_and_end_at_the_right_frame(
    tmp_path: Path, suffix: str, fps: str, gop_seconds: int
) -> None:
    made = await canonical_of(
        record(tmp_path / f"live.{suffix}", seconds=24, fps=fps, gop_seconds=gop_seconds)
    )
    frames = frame_times(made.path)
    chance = random.Random(f"{suffix}{fps}")
    for _ in range(6):
        start = chance.randrange(0, made.media.picture_end_ms - 400)
        end = start + chance.randrange(200, 2500)
        done = await cut.cut(made.path, tmp_path / "clip.mp4", start, end, media=made.media)
        numbers = frame_numbers(tmp_path / "clip.mp4")
        assert numbers[0] == shown_at(frames, start), (start, end)
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert abs(numbers[-1] - shown_at(frames, min(end, made.media.picture_end_ms) - 1)) <= 1
        assert start - 1000 / Fraction(fps) - 1 < done.start_ms <= start + 0.5
        assert done.end_ms <= made.media.duration_ms


@pytest.mark.parametrize(
    ("suffix", "fps", "audio_late"),
    [("mp4", "25", 0.0), ("flv", "25", 0.0), ("ts", "25", 1.5), ("mkv", "30000/1001", 0.0)],
)
async def test_long_cuts_copy_whole_groups_and_are_as_exact(
    tmp_path: Path, suffix: str, fps: str, audio_late: float
) -> None:
    beeps = tuple(0.5 + 2.75 * i for i in range(8))
    recording = record(tmp_path / f"l.{suffix}", seconds=24, fps=fps, beeps=beeps, audio_late=audio_late)
    made = await canonical_of(recording)
    frames = frame_times(made.path)
    chance = random.Random(f"long{suffix}{fps}")
    for _ in range(2):
        start = chance.randrange(0, 12_000)
        end = start + chance.randrange(7500, 12_000)
        done = await cut.cut(made.path, tmp_path / "clip.mp4", start, end, media=made.media)
        assert smart.plan(made.path, cut.frame_time(made.path, start), Fraction(end, 1000)) is not None
        shown = frame_times(tmp_path / "clip.mp4")
        numbers = [number for number, _ in shown]
        assert numbers == list(range(shown_at(frames, start), numbers[-1] + 1)), (start, end)
        assert abs(numbers[-1] - shown_at(frames, end - 1)) <= 1
        times = dict(frames)
        moved = [time - (times[number] - done.start_ms / 1000) for number, time in shown]
        assert max(map(abs, moved)) < 0.002
        await audio.extract(tmp_path / "clip.mp4", tmp_path / "a.wav", duration_ms=done.duration_ms)
        late = (b + audio_late - done.start_ms / 1000 for b in beeps)
        inside = [at for at in late if 0.05 < at < done.duration_ms / 1000 - 0.2]
        heard = [at for at in onsets(tmp_path / "a.wav") if 0.05 < at < done.duration_ms / 1000 - 0.2]
        assert heard == pytest.approx(inside, abs=0.05)


async def test_groups_that_refer_to_the_one_before_are_not_copied(tmp_path: Path) -> None:
    """With open groups a key frame is no restart point: frames shown before it need the group before."""
    opened = ("-x264-params", "open-gop=1:bframes=3:keyint=50:min-keyint=50:scenecut=0")
    made = await canonical_of(record(tmp_path / "open.mp4", seconds=16, output=opened))
    frames = frame_times(made.path)
    await cut.cut(made.path, tmp_path / "clip.mp4", 1234, 14_321, media=made.media)
    numbers = frame_numbers(tmp_path / "clip.mp4")
    assert numbers == list(range(shown_at(frames, 1234), shown_at(frames, 14_320) + 1))


async def test_a_cut_of_all_of_a_recording_from_a_key_frame_copies_everything(tmp_path: Path) -> None:
    made = await canonical_of(record(tmp_path / "live.mp4", seconds=8))
    await cut.cut(made.path, tmp_path / "clip.mp4", 0, 8000, media=made.media)
    assert frame_numbers(tmp_path / "clip.mp4") == list(range(200))
    await cut.cut(made.path, tmp_path / "clip.mp4", 0, 8000, media=made.media, encode_all=True)
    assert frame_numbers(tmp_path / "clip.mp4") == list(range(200))


async def test_a_cut_from_a_negative_start_begins_at_the_first_frame(tmp_path: Path) -> None:
    made = await canonical_of(record(tmp_path / "live.mp4", seconds=4))
    done = await cut.cut(made.path, tmp_path / "clip.mp4", -700, 1000, media=made.media)
    assert (done.start_ms, done.end_ms) == (0, 1000)
    assert frame_numbers(tmp_path / "clip.mp4") == list(range(25))


async def test_a_cut_at_the_very_end_stops_with_the_recording(tmp_path: Path) -> None:
    made = await canonical_of(record(tmp_path / "live.mp4", seconds=4))
    done = await cut.cut(made.path, tmp_path / "clip.mp4", 3900, 9000, media=made.media)
    assert done.end_ms == made.media.picture_end_ms == 4000
    assert frame_numbers(tmp_path / "clip.mp4") == [97, 98, 99]
    assert (await probe(tmp_path / "clip.mp4")).duration_ms <= 4000 - done.start_ms + 1000 / 25


async def test_the_last_millisecond_of_a_recording_can_be_cut(tmp_path: Path) -> None:
    made = await canonical_of(record(tmp_path / "live.mp4", seconds=4))
    await cut.cut(made.path, tmp_path / "clip.mp4", 3999, 4001, media=made.media)
    assert frame_numbers(tmp_path / "clip.mp4") == [99]


@pytest.mark.parametrize(
    ("start", "end"), [(4000, 5000), (60_000, 61_000), (-500, 0), (2000, 2000), (3000, 1000)]
)
async def test_a_span_without_any_part_in_the_recording_is_refused(
    tmp_path: Path, start: int, end: int
) -> None:
    made = await canonical_of(record(tmp_path / "live.mp4", seconds=4))
    with pytest.raises(SpanOutside):
        await cut.cut(made.path, tmp_path / "clip.mp4", start, end, media=made.media)


@pytest.mark.parametrize(
    ("start", "end", "first", "beeps"), [(3000, 7000, 75, [2.0, 3.5]), (4500, 6800, 99, [0.5, 2.0])]
)
async def test_where_sound_outlasts_the_picture_its_last_frame_stays(
    tmp_path: Path, start: int, end: int, first: int, beeps: list[float]
) -> None:
    recording = record(tmp_path / "live.mp4", seconds=4, audio_seconds=7, beeps=(0.5, 5.0, 6.5))
    made = await canonical_of(recording)
    assert made.media.picture_end_ms == 4000
    done = await cut.cut(made.path, tmp_path / "clip.mp4", start, end, media=made.media)
    assert (done.start_ms, done.end_ms) == (start, end)
    shown = frame_times(tmp_path / "clip.mp4")
    assert [number for number, _ in shown] == [min(99, first + i) for i in range((end - start) // 40 + 1)][
        : len(shown)
    ]
    assert shown[-1][1] == pytest.approx((end - start) / 1000, abs=0.09)
    await audio.extract(tmp_path / "clip.mp4", tmp_path / "a.wav", duration_ms=done.duration_ms)
    assert onsets(tmp_path / "a.wav") == pytest.approx(beeps, abs=0.05)


async def test_a_picture_that_stands_still_does_not_pull_in_the_sound_before(tmp_path: Path) -> None:
    """Screen recordings store a frame only when something moves."""
    whole = record(tmp_path / "whole.mp4", beeps=(4.2, 5.5))
    still = ("-vf", "select='not(between(n,100,160))'", "-fps_mode", "vfr", "-c:a", "copy")
    made = await canonical_of(remake(whole, tmp_path / "still.mp4", *still))
    done = await cut.cut(made.path, tmp_path / "clip.mp4", 5000, 8000, media=made.media)
    assert done.start_ms == 5000
    shown = frame_times(tmp_path / "clip.mp4")
    assert (shown[0], shown[-1][0]) == ((99, 0.0), 199)
    assert next(time for number, time in shown if number == 161) == pytest.approx(1.44, abs=0.05)
    await audio.extract(tmp_path / "clip.mp4", tmp_path / "a.wav", duration_ms=done.duration_ms)
    assert onsets(tmp_path / "a.wav") == pytest.approx([0.5], abs=0.05)


async def test_sound_and_picture_of_a_cut_are_in_step_even_when_sound_began_late(tmp_path: Path) -> None:
    made = await canonical_of(record(tmp_path / "late.ts", beeps=(0.5, 3.25, 7.0), audio_late=1.5))
    done = await cut.cut(made.path, tmp_path / "clip.mp4", 4200, 9500, media=made.media)
    clip = await canonical.make(tmp_path / "clip.mp4", tmp_path / "c.mp4", await probe(tmp_path / "clip.mp4"))
    await audio.extract(clip.path, tmp_path / "a.wav", duration_ms=clip.media.duration_ms)
    expected = [4.75 - done.start_ms / 1000, 8.5 - done.start_ms / 1000]
    assert onsets(tmp_path / "a.wav") == pytest.approx(expected, abs=0.05)


async def test_sound_without_picture_can_be_cut(tmp_path: Path) -> None:
    sound = record(tmp_path / "radio.m4a", beeps=(0.5, 3.25, 7.0), output=("-vn", "-map", "-0:v"))
    made = await canonical_of(sound)
    done = await cut.cut(made.path, tmp_path / "clip.mp4", 3000, 5000, media=made.media)
    await audio.extract(tmp_path / "clip.mp4", tmp_path / "a.wav", duration_ms=done.duration_ms)
    assert onsets(tmp_path / "a.wav") == pytest.approx([0.25], abs=0.05)


@pytest.mark.parametrize(("at_ms", "number"), [(1000, 25), (1039, 25), (1999, 49), (60_000, 49), (-5, 0)])
async def test_a_thumbnail_shows_the_frame_of_its_time(tmp_path: Path, at_ms: int, number: int) -> None:
    recording = record(tmp_path / "live.mp4", seconds=2)
    await thumbnail(recording, tmp_path / "still.jpg", at_ms)
    with Image.open(tmp_path / "still.jpg") as still:
        assert still.format == "JPEG"
        assert frame_number(np.asarray(still.convert("L"))) == number
