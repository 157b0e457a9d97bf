"""The canonical clock: what sounds at a time in the recording sounds at that time for an engine."""

from pathlib import Path

import pytest

from services.asr.media import audio, canonical, flv_clock
from services.asr.media.probe import probe
from tests.integration.media.changing import without_head
from tests.integration.media.recordings import frame_times, onsets, record, remake

BEEPS = (0.5, 3.25, 7.0, 10.5)
TOLERANCE = 0.05


async def heard(recording: Path, folder: Path) -> list[float]:
    media = await probe(recording)
    made = await canonical.make(recording, folder / "canonical.mp4", media)
    await audio.extract(made.path, folder / "audio.wav", duration_ms=made.media.duration_ms)
    return onsets(folder / "audio.wav")


@pytest.mark.parametrize("suffix", ["mp4", "flv", "ts", "mkv", "mov"])
async def test_beeps_keep_their_times_in_every_container(tmp_path: Path, suffix: str) -> None:
    recording = record(tmp_path / f"live.{suffix}", beeps=BEEPS)
    assert await heard(recording, tmp_path) == pytest.approx(BEEPS, abs=TOLERANCE)


@pytest.mark.parametrize("suffix", ["mp4", "flv", "ts"])
async def test_audio_that_begins_late_is_preceded_by_silence(tmp_path: Path, suffix: str) -> None:
    recording = record(tmp_path / f"late.{suffix}", beeps=BEEPS, audio_late=1.5)
    assert await heard(recording, tmp_path) == pytest.approx([b + 1.5 for b in BEEPS], abs=TOLERANCE)


@pytest.mark.parametrize("suffix", ["mp4", "flv", "ts"])
async def test_a_hole_in_the_audio_moves_nothing_behind_it(tmp_path: Path, suffix: str) -> None:
    whole = record(tmp_path / "whole.mp4", beeps=BEEPS)
    drop = "noise=drop='gt(pts*tb,4)*lt(pts*tb,6)'"
    holed = remake(whole, tmp_path / f"holed.{suffix}", "-c", "copy", "-bsf:a", drop)
    assert await heard(holed, tmp_path) == pytest.approx(BEEPS, abs=TOLERANCE)


async def test_a_transport_stream_that_starts_anywhere_begins_at_zero(tmp_path: Path) -> None:
    whole = record(tmp_path / "whole.mp4", beeps=BEEPS)
    shifted = remake(whole, tmp_path / "day.ts", "-c", "copy", "-output_ts_offset", "36000")
    assert await heard(shifted, tmp_path) == pytest.approx(BEEPS, abs=TOLERANCE)


async def test_a_timestamp_jump_back_between_two_parts_loses_no_time(tmp_path: Path) -> None:
    """A recorder that reconnects appends a second stream whose clock starts again."""
    first = record(tmp_path / "first.ts", seconds=6, beeps=(0.5, 3.25))
    second = record(tmp_path / "second.ts", seconds=6, beeps=(0.5, 3.25))
    joined = tmp_path / "joined.ts"
    joined.write_bytes(first.read_bytes() + second.read_bytes())
    sounds = await heard(joined, tmp_path)
    shown = frame_times(tmp_path / "canonical.mp4")
    # the beep of 3.25 s sounds while frame 81 is on screen, in both parts
    assert sounds[1::2] == pytest.approx([time for number, time in shown if number == 81], abs=TOLERANCE)
    assert sounds[2] - sounds[0] == pytest.approx(6.0, abs=0.1)


@pytest.mark.parametrize("jump_seconds", [60, 40_000])
async def test_a_timestamp_jump_ahead_between_two_parts_adds_no_time(
    tmp_path: Path, jump_seconds: int
) -> None:
    """A recorder whose clock was set, or a stream that was switched over to another encoder."""
    first = record(tmp_path / "first.ts", seconds=6, beeps=(0.5, 3.25))
    second = record(tmp_path / "second.ts", seconds=6, beeps=(0.5, 3.25))
    ahead = remake(second, tmp_path / "ahead.ts", "-c", "copy", "-output_ts_offset", str(jump_seconds))
    joined = tmp_path / "joined.ts"
    joined.write_bytes(first.read_bytes() + ahead.read_bytes())
    sounds = await heard(joined, tmp_path)
    shown = frame_times(tmp_path / "canonical.mp4")
    assert sounds[1::2] == pytest.approx([time for number, time in shown if number == 81], abs=TOLERANCE)
    assert sounds[2] - sounds[0] == pytest.approx(6.0, abs=0.1)


@pytest.mark.parametrize("offset", [0, 6.5])
async def test_a_transport_stream_may_go_on_under_other_numbers(tmp_path: Path, offset: float) -> None:
    """A live stream that is switched to another encoder."""
    first = record(tmp_path / "first.ts", seconds=6, beeps=(0.5, 3.25))
    other = ("-c", "copy", "-mpegts_start_pid", "600", "-output_ts_offset", str(offset))
    second = remake(first, tmp_path / "second.ts", *other)
    (tmp_path / "joined.ts").write_bytes(first.read_bytes() + second.read_bytes())
    sounds = await heard(tmp_path / "joined.ts", tmp_path)
    shown = frame_times(tmp_path / "canonical.mp4")
    # where a transport stream breaks off, a demuxer can't know whether its last packets were whole
    assert [number for number, _ in shown if number < 146] == [*range(146), *range(146)]
    assert sounds[1::2] == pytest.approx([time for number, time in shown if number == 81], abs=TOLERANCE)


@pytest.mark.parametrize("jump_seconds", [0, 60, 40_000])
async def test_a_timestamp_jump_in_flv_neither_loses_nor_adds_time(tmp_path: Path, jump_seconds: int) -> None:
    """A recorder goes on when the stream has come back, which begins at zero or at a server's new clock."""
    first = record(tmp_path / "first.flv", seconds=6, beeps=(0.5, 3.25))
    again = ("-c", "copy", "-output_ts_offset", str(jump_seconds), "-flvflags", "no_duration_filesize")
    second = remake(first, tmp_path / "second.flv", *again).read_bytes()
    for behind in (without_head(second), second):
        (tmp_path / "joined.flv").write_bytes(first.read_bytes() + behind)
        sounds = await heard(tmp_path / "joined.flv", tmp_path)
        shown = frame_times(tmp_path / "canonical.mp4")
        assert [number for number, _ in shown] == [*range(150), *range(150)]
        assert sounds[1::2] == pytest.approx([time for number, time in shown if number == 81], abs=TOLERANCE)
        assert sounds[2] - sounds[0] == pytest.approx(6.0, abs=0.1)


async def test_sound_that_is_missing_for_long_is_no_jump(tmp_path: Path) -> None:
    whole = record(tmp_path / "whole.mp4", seconds=30, beeps=(0.5, 25.25))
    drop = "noise=drop='gt(pts*tb,4)*lt(pts*tb,20)'"
    holed = remake(whole, tmp_path / "holed.flv", "-c", "copy", "-bsf:a", drop)
    assert not flv_clock.jumps(holed)
    assert await heard(holed, tmp_path) == pytest.approx([0.5, 25.25], abs=TOLERANCE)


async def test_streams_that_mp4_cannot_hold_are_encoded_again_on_the_same_clock(tmp_path: Path) -> None:
    whole = record(tmp_path / "whole.mp4", beeps=BEEPS)
    old = remake(whole, tmp_path / "old.flv", "-c:v", "flv1", "-c:a", "adpcm_swf", "-ar", "44100")
    made = await canonical.make(old, tmp_path / "canonical.mp4", await probe(old))
    assert not made.copied
    assert made.media.video_codec == "h264"
    assert await heard(old, tmp_path) == pytest.approx(BEEPS, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mpeg4.avi", ("-c:v", "mpeg4", "-c:a", "mp3")),
        ("h264.avi", ("-c:v", "copy", "-c:a", "mp3")),
        ("windows.asf", ("-c:v", "wmv2", "-c:a", "wmav2")),
        ("program.mpg", ("-c:v", "mpeg2video", "-c:a", "mp2")),
        ("pcm.mkv", ("-c:v", "copy", "-c:a", "pcm_s16le")),
        ("sound.mp3", ("-vn",)),
        ("raw.aac", ("-vn", "-c:a", "aac")),
        ("gap.mp4", ("-vf", "select='not(between(n,100,160))'", "-fps_mode", "vfr", "-c:a", "copy")),
    ],
)
async def test_old_and_odd_recordings_keep_their_clock(
    tmp_path: Path, name: str, arguments: tuple[str, ...]
) -> None:
    whole = record(tmp_path / "whole.mp4", beeps=BEEPS)
    assert await heard(remake(whole, tmp_path / name, *arguments), tmp_path) == pytest.approx(
        BEEPS, abs=TOLERANCE
    )


async def test_a_transport_streams_clock_may_wrap_in_the_middle(tmp_path: Path) -> None:
    """The 33 bits of its clock are full after 26.5 hours."""
    whole = record(tmp_path / "whole.mp4", beeps=BEEPS)
    wrapping = remake(whole, tmp_path / "wrap.ts", "-c", "copy", "-output_ts_offset", "95437")
    assert await heard(wrapping, tmp_path) == pytest.approx(BEEPS, abs=TOLERANCE)


async def test_damaged_packets_cost_no_time(tmp_path: Path) -> None:
    recording = record(tmp_path / "live.ts", beeps=BEEPS)
    content = bytearray(recording.read_bytes())
    middle = len(content) * 4 // 10
    content[middle : middle + 4000] = bytes(b ^ 0x5A for b in content[middle : middle + 4000])
    recording.write_bytes(content)
    sounds = await heard(recording, tmp_path)
    assert (sounds[0], sounds[-1]) == pytest.approx((BEEPS[0], BEEPS[-1]), abs=TOLERANCE)
