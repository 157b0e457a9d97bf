"""Recordings whose encoder changes on the way: cuts before, behind and across are as exact as elsewhere."""

from __future__ import annotations

import random
import wave
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from libs.common import child
from samples.frame_code import frame_number
from services.asr.media import audio, canonical, cut, ffmpeg, smart
from services.asr.media.probe import probe
from tests.integration.media.changing import Stretch, record_changes
from tests.integration.media.cut_checks import Changing, changing, check_cut
from tests.integration.media.recordings import frame_times, onsets, record, remake

LARGER, LYING, UPRIGHT = (312, 180), (416, 240), (240, 416)
CHANGES = {
    "larger": [Stretch(150), Stretch(150, size=LARGER), Stretch(125)],
    "turned": [Stretch(150, size=LYING), Stretch(150, size=UPRIGHT), Stretch(125, size=LYING)],
    "profile": [
        Stretch(150),
        Stretch(150, bframes=0, options=("-profile:v", "baseline")),
        Stretch(125, bframes=3),
    ],
    "sets": [
        Stretch(150),
        Stretch(150, options=("-x264-params", "cabac=0:chroma-qp-offset=3")),
        Stretch(125),
    ],
    "rate": [Stretch(150), Stretch(180, fps="30", gop=30), Stretch(120, fps="24000/1001", gop=24)],
    "hole": [Stretch(150), Stretch(150, size=LARGER, hole=Fraction(3, 2)), Stretch(125)],
}


def spans(change: float, chance: random.Random) -> Iterator[tuple[int, int]]:
    """Yield spans in ms before, behind and across a change, and within a frame of it."""
    at = round(change * 1000)
    near = chance.randrange(1, 40)
    yield at - chance.randrange(3600, 5900), at - near
    yield at - near, at + chance.randrange(200, 900)
    yield at + near, at + chance.randrange(4500, 4900)
    yield at, at + chance.randrange(4100, 4900)
    yield at - chance.randrange(4100, 5900), at + chance.randrange(3000, 4900)
    yield at - chance.randrange(41, 900), at + near


@pytest.mark.parametrize(
    ("suffix", "change"),
    [*((".flv", change) for change in CHANGES), (".ts", "larger"), (".ts", "rate"), (".ts", "hole")],
)
async def test_cuts_around_a_change_have_every_frame_once_at_its_time_in_one_size(
    tmp_path: Path, suffix: str, change: str
) -> None:
    recording = await changing(tmp_path, suffix, CHANGES[change])
    await check_cuts(recording, tmp_path / "clip.mp4", random.Random(f"{suffix}{change}"))


@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
async def test_so_have_cuts_of_a_live_stream_that_was_copied_into_another_container(
    tmp_path: Path, suffix: str
) -> None:
    recording = await changing(tmp_path, suffix, CHANGES["larger"])
    await check_cuts(recording, tmp_path / "clip.mp4", random.Random(suffix))


async def check_cuts(recording: Changing, out: Path, chance: random.Random) -> None:
    """Make some cuts around each change; a soak makes hundreds of them."""
    for change in recording.changes:
        for span in chance.sample(list(spans(change, chance)), 3):
            await check_cut(recording, out, span)


@pytest.mark.parametrize("suffix", [".flv", ".ts"])
async def test_behind_a_change_whole_groups_are_copied(tmp_path: Path, suffix: str) -> None:
    recording = await changing(tmp_path, suffix, [Stretch(100), Stretch(250, size=LARGER)])
    made, [change] = recording.made, recording.changes
    start, end = change + 0.5, change + 9.8
    plan = smart.plan(
        made.path, cut.frame_time(made.path, round(start * 1000)), Fraction(round(end * 1000), 1000)
    )
    assert plan is not None
    assert (plan.shape.width, plan.shape.height) == LARGER
    assert smart.plan(made.path, Fraction(0), Fraction(round(end * 1000), 1000)) is None, "across it"


async def test_so_are_cuts_of_hevc_whose_encoder_changes(tmp_path: Path) -> None:
    params = "log-level=error:open-gop=0:keyint=25:min-keyint=25:scenecut=0"
    hevc = ("-c:v", "libx265", "-preset", "ultrafast", "-x265-params", params)
    recording = await changing(
        tmp_path, ".ts", [Stretch(150, options=hevc), Stretch(260, size=LARGER, options=hevc)]
    )
    made, [change] = recording.made, recording.changes
    assert made.media.video_codec == "hevc"
    await check_cuts(recording, tmp_path / "clip.mp4", random.Random("hevc"))
    span = round(change * 1000) + 900, round(change * 1000) + 10_050
    first = cut.frame_time(made.path, span[0])
    assert smart.plan(made.path, first, Fraction(span[1], 1000)) is not None
    await check_cut(recording, tmp_path / "clip.mp4", span)


@pytest.mark.parametrize("suffix", [".flv", ".ts"])
async def test_a_fast_cut_across_a_change_has_every_frame(tmp_path: Path, suffix: str) -> None:
    recording = await changing(tmp_path, suffix, CHANGES["larger"])
    made = recording.made
    for change in recording.changes:
        for begin, end in ((-3.2, 2.5), (0.7, 3.1)):
            span = round((change + begin) * 1000), round((change + end) * 1000)
            done = await cut.cut(made.path, tmp_path / "clip.mp4", *span, media=made.media, fast=True)
            shown = frame_times(tmp_path / "clip.mp4")
            first = recording.shown_at(done.start_ms)
            assert [number for number, _ in shown] == [
                number for number in recording.times if first <= number <= shown[-1][0]
            ], span
            assert recording.times[shown[-1][0]] >= end + change - 0.05, span
    complaints = await child.run(
        [ffmpeg.find(), "-v", "warning", "-i", str(tmp_path / "clip.mp4"), "-f", "null", "-"],
        timeout_seconds=60,
    )
    assert (complaints.returncode, complaints.stderr_text) == (0, "")


async def test_long_cuts_of_a_recording_that_was_held_upright_are_upright_in_every_frame(
    tmp_path: Path,
) -> None:
    """Its packets are copied as they are stored, turned by the player: the encoded edges must be, too."""
    lying = record(tmp_path / "lying.mp4", seconds=12)
    live = remake(lying, tmp_path / "upright.mp4", "-c", "copy", before=("-display_rotation", "90"))
    made = await canonical.make(live, tmp_path / "canonical.mp4", await probe(live))
    await cut.cut(made.path, tmp_path / "clip.mp4", 1230, 9870, media=made.media)
    assert smart.plan(made.path, Fraction(6, 5), Fraction(987, 100)) is not None
    with av.open(str(tmp_path / "clip.mp4")) as container:
        frames = [
            (frame_number(frame.to_ndarray(format="gray")), frame.width, frame.rotation)
            for frame in container.decode(video=0)
        ]
    with av.open(str(made.path)) as container:
        whole = next(container.decode(video=0))
    assert {frame[1:] for frame in frames} == {(whole.width, whole.rotation)}
    assert [frame[0] for frame in frames] == list(range(30, 247))


# Between the packets of a transport stream that bear a time ffmpeg counts on at the first encoder's rate.
@pytest.mark.parametrize(("suffix", "last_rate"), [(".flv", "22050"), (".ts", "44100")])
async def test_sound_keeps_its_pitch_and_its_times_when_its_encoder_changes(
    tmp_path: Path, suffix: str, last_rate: str
) -> None:
    """An encoder that comes back may have another sampling rate, and one channel more."""
    stretches = [
        Stretch(150, options=("-ar", "44100")),
        Stretch(200, options=("-ar", "48000", "-ac", "2")),
        Stretch(125, options=("-ar", last_rate)),
    ]
    live = record_changes(tmp_path / f"live{suffix}", stretches)
    made = await canonical.make(live, tmp_path / "canonical.mp4", await probe(live))
    origin = frame_times(made.path)[0][1]
    beeps = [origin + second for second in (0.5, 6.5, 14.5)]
    await audio.extract(made.path, tmp_path / "whole.wav", duration_ms=made.media.duration_ms)
    assert onsets(tmp_path / "whole.wav") == pytest.approx(beeps, abs=0.05)
    assert pitches(tmp_path / "whole.wav", beeps) == pytest.approx([1000] * 3, rel=0.02)
    for begin, end in ((4.0, 12.5), (6.2, 13.9), (6.2, 16.0), (14.2, 16.0)):
        done = await cut.cut(
            made.path, tmp_path / "clip.mp4", round(begin * 1000), round(end * 1000), media=made.media
        )
        await audio.extract(tmp_path / "clip.mp4", tmp_path / "clip.wav", duration_ms=done.duration_ms)
        inside = [beep - done.start_ms / 1000 for beep in beeps if begin < beep < end - 0.2]
        assert onsets(tmp_path / "clip.wav") == pytest.approx(inside, abs=0.05), (begin, end)
        assert pitches(tmp_path / "clip.wav", inside) == pytest.approx([1000] * len(inside), rel=0.02)


def pitches(path: Path, beeps: Sequence[float]) -> list[float]:
    """Return the strongest frequency in Hz of each beep in a 16 kHz WAV file."""
    with wave.open(str(path)) as file:
        sound = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2").astype(np.float64)
    found = []
    for beep in beeps:
        part = sound[int((beep + 0.03) * 16_000) :][:1024]
        found.append(float(np.argmax(np.abs(np.fft.rfft(part * np.hanning(len(part)))))) * 16_000 / len(part))
    return found
