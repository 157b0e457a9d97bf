"""Files as they arrive: each kind that can't be used has a reason of its own, and names don't matter."""

import asyncio
import errno
import os
import signal
import stat
from pathlib import Path

import av
import pytest

from libs.common.testing import eventually
from services.asr.media import audio, canonical, cut, ffmpeg
from services.asr.media.errors import (
    AudioUndecodable,
    DiskFull,
    EmptyFile,
    FfmpegFailed,
    FfmpegKilled,
    FfmpegTimeout,
    MediaError,
    MediaInfrastructure,
    MoovMissing,
    NoAudioTrack,
    NotMedia,
    SystemTrouble,
)
from services.asr.media.probe import probe
from tests.integration.media.recordings import onsets, record, remake

EDGE = Path(__file__).resolve().parents[3] / "samples" / "edge"


async def test_a_picture_without_any_audio_track_says_so() -> None:
    with pytest.raises(NoAudioTrack):
        await probe(EDGE / "noaudio.mp4")


async def test_an_mp4_that_lost_its_index_says_so() -> None:
    with pytest.raises(MoovMissing):
        await probe(EDGE / "trunc_nomoov.mp4")


async def test_audio_that_begins_late_in_a_transport_stream_is_usable(tmp_path: Path) -> None:
    media = await probe(EDGE / "late.ts")
    made = await canonical.make(EDGE / "late.ts", tmp_path / "c.mp4", media)
    # a transport stream only knows when its last packet begins
    assert made.media.duration_ms == pytest.approx(media.duration_ms, abs=500)
    await audio.extract(made.path, tmp_path / "a.wav", duration_ms=made.media.duration_ms)
    # its sound beeps every two seconds, and begins 1.5 s behind the picture
    expected = [2 * beep + 1.5 for beep in range(1, 10)]
    assert onsets(tmp_path / "a.wav") == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("empty.mp4", b"", EmptyFile),
        ("notes.txt", "会议纪要\n".encode() * 50, NotMedia),
        ("page.mp4", b"<!doctype html><title>login</title>", NotMedia),
        ("noise.ts", bytes(range(256)) * 40, NotMedia),
        ("list.m3u8", b"#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n", NotMedia),
        ("list.ffconcat", b"ffconcat version 1.0\nfile /etc/passwd\n", NotMedia),
        ("subs.srt", b"1\n00:00:00,000 --> 00:00:02,000\nhello\n", NotMedia),
    ],
)
async def test_bytes_that_are_no_recording_are_refused(
    tmp_path: Path, name: str, content: bytes, error: type[MediaError]
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error) as refused:
        await probe(tmp_path / name)
    assert str(tmp_path) not in str(refused.value), "what a person reads names a path of the server"


async def test_a_photograph_is_no_recording() -> None:
    with pytest.raises(NotMedia):
        await probe(EDGE.parent / "photos" / "coffee.jpg")


async def test_every_reason_is_its_own() -> None:
    reasons = [kind.reason for kind in MediaError.__subclasses__()]
    assert len(set(reasons)) == len(reasons)
    assert {EmptyFile, NotMedia, MoovMissing, NoAudioTrack, AudioUndecodable} <= set(
        MediaError.__subclasses__()
    )


async def test_a_picture_that_nothing_here_decodes_leaves_the_sound_usable(tmp_path: Path) -> None:
    """Live platforms put codecs into FLV under numbers of their own."""
    recording = record(tmp_path / "live.flv", beeps=(0.5, 3.25))
    content = bytearray(recording.read_bytes())
    at = 13
    while at + 15 < len(content):
        if content[at] == 9:  # a video tag: the low half of its first byte names the codec
            content[at + 11] = content[at + 11] & 0xF0 | 0x0E
        at += 15 + int.from_bytes(content[at + 1 : at + 4], "big")
    recording.write_bytes(content)
    media = await probe(recording)
    assert not media.has_picture
    made = await canonical.make(recording, tmp_path / "c.mp4", media)
    await audio.extract(made.path, tmp_path / "a.wav", duration_ms=made.media.duration_ms)
    assert onsets(tmp_path / "a.wav") == pytest.approx([0.5, 3.25], abs=0.05)


async def test_an_upright_recording_has_the_size_it_is_shown_in(tmp_path: Path) -> None:
    lying = record(tmp_path / "lying.mp4", seconds=3)
    upright = remake(lying, tmp_path / "upright.mp4", "-c", "copy", before=("-display_rotation", "90"))
    media = await probe(upright)
    assert (media.width, media.height) == (120, 208)
    made = await canonical.make(upright, tmp_path / "c.mp4", media)
    assert (made.media.width, made.media.height) == (120, 208)
    await cut.cut(made.path, tmp_path / "k.mp4", 1000, 2000, media=made.media)
    clip = await probe(tmp_path / "k.mp4")
    assert (clip.width, clip.height) == (120, 208)


@pytest.mark.parametrize("suffix", ["flv", "mp4", "mkv"])
async def test_a_recording_that_ends_early_is_partial_and_says_how_much_is_missing(
    tmp_path: Path, suffix: str
) -> None:
    flags = ("-movflags", "+faststart") if suffix == "mp4" else ()
    whole = record(tmp_path / f"whole.{suffix}", beeps=(0.5, 3.25), output=flags)
    content = whole.read_bytes()
    part = tmp_path / f"part.{suffix}"
    part.write_bytes(content[: len(content) // 2])
    made = await canonical.make(part, tmp_path / "c.mp4", await probe(part))
    assert 3000 < made.missing_ms < 9000
    assert made.media.duration_ms + made.missing_ms == pytest.approx(12_000, abs=200)


async def test_a_whole_recording_misses_nothing(tmp_path: Path) -> None:
    recording = record(tmp_path / "whole.flv")
    made = await canonical.make(recording, tmp_path / "c.mp4", await probe(recording))
    assert made.missing_ms == 0


@pytest.mark.parametrize(
    "name",
    [
        "-i.mp4",
        "-y -f.mp4",
        "a%20b%%.mp4",
        'it\'s "so".mp4',
        "直播间 回放.mp4",
        "🎬👗.mp4",
        "http:x.mp4",
        "pipe:0.mp4",
    ],
)
async def test_names_of_any_kind_are_read_and_written(tmp_path: Path, name: str) -> None:
    recording = record(tmp_path / "plain.mp4", seconds=2, beeps=(0.5,))
    strange = recording.rename(tmp_path / name)
    made = await canonical.make(strange, tmp_path / f"c{name}", await probe(strange))
    await audio.extract(made.path, tmp_path / f"{name}.wav", duration_ms=made.media.duration_ms)
    await cut.cut(made.path, tmp_path / f"k{name}", 100, 900, media=made.media)
    assert onsets(tmp_path / f"{name}.wav") == pytest.approx([0.5], abs=0.05)


async def test_a_name_whose_bytes_are_no_utf8_is_read(tmp_path: Path) -> None:
    recording = record(tmp_path / "plain.mp4", seconds=2)
    strange = recording.rename(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe gbk \xd6\xb1.mp4")))
    made = await canonical.make(strange, tmp_path / "c.mp4", await probe(strange))
    assert made.media.duration_ms == pytest.approx(2000, abs=60)


@pytest.fixture
def fake_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program in ffmpeg's place; the test writes what it does."""
    program = tmp_path / "ffmpeg"
    monkeypatch.setattr(ffmpeg, "find", lambda: str(program))
    return program


def write_program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


async def test_an_error_text_that_is_no_utf8_is_still_told(fake_ffmpeg: Path) -> None:
    write_program(fake_ffmpeg, "printf 'bad \\377\\376 bytes: \\326\\261' >&2; exit 1")
    with pytest.raises(FfmpegFailed, match=r"bad .* bytes"):
        await ffmpeg.run(["x"], timeout_seconds=20)


async def test_a_full_disk_is_this_machines_fault_and_not_the_recordings(fake_ffmpeg: Path) -> None:
    write_program(fake_ffmpeg, "echo 'av_interleaved_write_frame(): No space left on device' >&2; exit 228")
    with pytest.raises(DiskFull):
        await ffmpeg.run(["x"], timeout_seconds=20)


async def test_a_program_that_hangs_is_killed_in_time_and_the_try_is_charged(fake_ffmpeg: Path) -> None:
    write_program(fake_ffmpeg, "exec sleep 600")
    with pytest.raises(FfmpegTimeout) as hung:
        await ffmpeg.run(["x"], timeout_seconds=0.3)
    assert not isinstance(hung.value, MediaInfrastructure | MediaError)


async def test_a_copy_that_is_killed_is_not_answered_by_encoding_all(
    fake_ffmpeg: Path, tmp_path: Path
) -> None:
    recording = EDGE / "late.ts"
    write_program(fake_ffmpeg, f"echo x >> {tmp_path}/runs; kill -KILL $$")
    with pytest.raises(FfmpegKilled):
        await canonical.make(recording, tmp_path / "c.mp4", await probe(recording))
    assert (tmp_path / "runs").read_text() == "x\n"


async def test_a_real_ffmpeg_that_is_killed_is_no_fault_of_the_recording() -> None:
    endless = ("-re", "-f", "lavfi", "-i", "sine", "-f", "null", "-")
    running = asyncio.create_task(ffmpeg.run(endless, timeout_seconds=60))

    pid = await eventually(lambda: asyncio.to_thread(_own_ffmpeg), timeout_seconds=30)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(FfmpegKilled, match="signal 9"):
        await running


def _own_ffmpeg() -> int | None:
    """Find the ffmpeg that this process has started and that is itself by now, no more its starter."""
    for task in Path("/proc/self/task").iterdir():
        for pid in map(int, (task / "children").read_text().split()):
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if argv[0] == os.fsencode(ffmpeg.find()) and b"-re" in argv:
                return pid
    return None


async def test_an_input_that_the_disk_does_not_give_is_the_machines_trouble() -> None:
    # a process's memory has nothing at 0: reading there is an error of the device
    with pytest.raises(SystemTrouble) as ill:
        await ffmpeg.run((*ffmpeg.source(Path("/proc/self/mem")), "-f", "null", "-"), timeout_seconds=20)
    assert ill.value.reason == "EIO"


async def test_a_file_that_cannot_be_opened_for_want_of_descriptors_is_no_bad_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = record(tmp_path / "live.mp4", seconds=2)

    def refused(*_: object, **__: object) -> None:
        av.error.err_check(-errno.EMFILE, str(recording))

    monkeypatch.setattr(av, "open", refused)
    with pytest.raises(SystemTrouble) as exhausted:
        await probe(recording)
    assert exhausted.value.reason == "EMFILE"


async def test_an_error_names_the_file_and_no_folder(tmp_path: Path) -> None:
    broken = tmp_path / "x.mp4"
    broken.write_bytes(b"no recording")
    with pytest.raises(FfmpegFailed) as failed:
        await ffmpeg.run((*ffmpeg.source(broken), "-f", "null", "-"), timeout_seconds=20)
    assert "x.mp4" in str(failed.value)
    assert str(tmp_path) not in str(failed.value)


async def test_progress_only_rises_and_ends_at_one(tmp_path: Path) -> None:
    recording = record(tmp_path / "live.mp4")
    shares: list[float] = []
    media = await probe(recording)
    await audio.extract(
        recording, tmp_path / "a.wav", duration_ms=media.duration_ms, on_progress=shares.append
    )
    assert shares == sorted(set(shares))
    assert shares[-1] == 1.0
