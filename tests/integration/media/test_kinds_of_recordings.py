"""Recordings as screens, browsers, telephones and camcorders make them: all of them become clips."""

from collections.abc import Iterator
from pathlib import Path

import av
import pytest
from PIL import Image

from services.asr.media import audio, canonical, cut
from services.asr.media.probe import probe
from services.asr.media.thumbnail import thumbnail
from tests.integration.media.changing import without_head
from tests.integration.media.recordings import frame_numbers, onsets, record, remake

BEEPS = (0.5, 3.25)
FAST_VP9 = ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8")


def made_with(folder: Path, name: str, *options: str) -> Path:
    return remake(record(folder / "whole.mp4", seconds=5, beeps=BEEPS), folder / name, *options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("av1.mkv", ("-c:v", "libsvtav1", "-preset", "12", "-c:a", "copy")),
        ("vp9.webm", (*FAST_VP9, "-c:a", "libopus")),
    ],
)
async def test_what_mp4_holds_is_copied(tmp_path: Path, name: str, options: tuple[str, ...]) -> None:
    """Encoding four hours of them again takes longer than recognising all that is said."""
    recording = made_with(tmp_path, name, *options)
    media = await probe(recording)
    made = await canonical.make(recording, tmp_path / "c.mp4", media)
    assert made.media.video_codec == media.video_codec in {"av1", "vp9", "h264"}
    await cut.cut(made.path, tmp_path / "clip.mp4", 3000, 4500, media=made.media)
    assert (await probe(tmp_path / "clip.mp4")).video_codec == "h264"


@pytest.mark.parametrize("codec", ["libopus", "flac", "ac3", "libvorbis", "pcm_s16le"])
async def test_a_clip_has_sound_that_editing_programs_play(tmp_path: Path, codec: str) -> None:
    recording = made_with(tmp_path, "live.mkv", "-c:v", "copy", "-c:a", codec)
    made = await canonical.make(recording, tmp_path / "c.mp4", await probe(recording))
    for fast in (False, True):
        done = await cut.cut(made.path, tmp_path / "clip.mp4", 100, 4900, media=made.media, fast=fast)
        clip = await probe(tmp_path / "clip.mp4")
        assert [track.codec for track in clip.audio_tracks] == ["aac"]
        await audio.extract(tmp_path / "clip.mp4", tmp_path / "a.wav", duration_ms=done.duration_ms)
        begin = done.start_ms / 1000
        assert onsets(tmp_path / "a.wav") == pytest.approx([b - begin for b in BEEPS], abs=0.05)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("odd.webm", (*FAST_VP9, "-c:a", "libopus")),
        ("odd8.webm", ("-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-c:a", "libopus")),
        ("odd.mp4", ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv444p", "-c:a", "copy")),
        ("odd.avi", ("-c:v", "ffv1", "-c:a", "pcm_s16le")),
    ],
)
async def test_a_screen_of_an_odd_size_is_cut(tmp_path: Path, name: str, options: tuple[str, ...]) -> None:
    recording = made_with(tmp_path, name, "-vf", "scale=209:121", *options)
    made = await canonical.make(recording, tmp_path / "c.mp4", await probe(recording))
    await cut.cut(made.path, tmp_path / "clip.mp4", 1000, 3000, media=made.media)
    assert len(frame_numbers(tmp_path / "clip.mp4")) == 50
    clip = await probe(tmp_path / "clip.mp4")
    assert (clip.width, clip.height) == (208, 120)


async def test_pixels_that_are_not_square_are_shown_as_they_are_meant(tmp_path: Path) -> None:
    wide = ("-vf", "setsar=4/3", "-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-c:a", "copy")
    recording = made_with(tmp_path, "live.ts", *wide)
    made = await canonical.make(recording, tmp_path / "c.mp4", await probe(recording))
    for span in ((1230, 1900), (230, 4700)):
        await cut.cut(made.path, tmp_path / "clip.mp4", *span, media=made.media)
        clip = await probe(tmp_path / "clip.mp4")
        assert (clip.width, clip.height) == (277, 120)
        await thumbnail(tmp_path / "clip.mp4", tmp_path / "still.jpg", 100)
        with Image.open(tmp_path / "still.jpg") as still:
            assert still.width / still.height == pytest.approx(277 / 120, rel=0.02)


@pytest.mark.parametrize("right", ["-1*c0", "-0.6*c0", "c0", "0*c0"])
async def test_channels_that_cancel_one_another_out_are_heard(tmp_path: Path, right: str) -> None:
    """A balanced plug in an unbalanced socket: the right channel is the left one upside down."""
    stereo = ("-c:v", "copy", "-af", f"pan=stereo|c0=c0|c1={right}", "-c:a", "aac")
    recording = made_with(tmp_path, "live.mp4", *stereo)
    made = await canonical.make(recording, tmp_path / "c.mp4", await probe(recording))
    await audio.extract(made.path, tmp_path / "a.wav", duration_ms=made.media.duration_ms)
    assert onsets(tmp_path / "a.wav") == pytest.approx(BEEPS, abs=0.05)


async def test_a_stream_that_begins_on_the_way_does_not_matter(tmp_path: Path) -> None:
    """Servers write data of their own between sound and picture."""
    first = record(tmp_path / "first.flv", seconds=3, beeps=(0.5,))
    later = remake(first, tmp_path / "later.flv", "-c", "copy", "-output_ts_offset", "3")
    content = first.read_bytes() + b"".join(_script_tags(later)) + without_head(later.read_bytes())
    (tmp_path / "live.flv").write_bytes(content)
    made = await canonical.make(tmp_path / "live.flv", tmp_path / "c.mp4", await probe(tmp_path / "live.flv"))
    assert made.media.duration_ms == pytest.approx(6000, abs=100)
    assert frame_numbers(made.path) == [*range(75), *range(75)]


def _script_tags(flv: Path) -> Iterator[bytes]:
    content, at = flv.read_bytes(), 13
    while at < len(content):
        end = at + 15 + int.from_bytes(content[at + 1 : at + 4], "big")
        if content[at] == 18:
            yield content[at:end]
        at = end


async def test_a_telephones_picture_of_many_bits_is_cut(tmp_path: Path) -> None:
    colours = "setparams=color_primaries=bt2020:color_trc=arib-std-b67:colorspace=bt2020nc"
    hevc = ("-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=1", "-tag:v", "hvc1")
    ten = ("-pix_fmt", "yuv420p10le")
    recording = made_with(tmp_path, "live.mov", "-vf", colours, *hevc, *ten, "-c:a", "copy")
    made = await canonical.make(recording, tmp_path / "c.mp4", await probe(recording))
    await cut.cut(made.path, tmp_path / "clip.mp4", 1000, 3000, media=made.media)
    assert frame_numbers(tmp_path / "clip.mp4") == list(range(25, 75))
    with av.open(str(tmp_path / "clip.mp4")) as container:
        frame = next(container.decode(video=0))
        assert (frame.format.name, frame.color_trc) == ("yuv420p", 18)
