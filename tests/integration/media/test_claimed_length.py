"""What is missing of a recording is told by what its recorder says of its length, never by a guess."""

from pathlib import Path

import pytest

from services.asr.media import canonical
from services.asr.media.probe import probe
from tests.integration.media.changing import without_head
from tests.integration.media.recordings import record, remake


async def missing_ms(recording: Path) -> int:
    made = await canonical.make(recording, recording.with_name("c.mp4"), await probe(recording))
    return made.missing_ms


@pytest.mark.parametrize("suffix", [".ts", ".flv"])
async def test_a_clock_that_jumps_makes_nothing_missing(tmp_path: Path, suffix: str) -> None:
    first = record(tmp_path / f"first{suffix}", seconds=4)
    flags = ("-flvflags", "no_duration_filesize") if suffix == ".flv" else ()
    ahead = remake(
        first, tmp_path / f"ahead{suffix}", "-c", "copy", "-output_ts_offset", "40000", *flags
    ).read_bytes()
    joined = tmp_path / f"joined{suffix}"
    joined.write_bytes(first.read_bytes() + (without_head(ahead) if suffix == ".flv" else ahead))
    assert await missing_ms(joined) == 0


@pytest.mark.parametrize("name", ["browser.webm", "browser.mkv"])
async def test_a_recording_that_says_no_length_is_as_long_as_what_is_there(tmp_path: Path, name: str) -> None:
    """A browser writes what comes and never goes back to the beginning; progress needs to know."""
    codecs = ("-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-c:a", "libopus")
    whole = record(tmp_path / "whole.mp4", seconds=6)
    live = remake(
        whole, tmp_path / name, *(codecs if name.endswith("webm") else ("-c", "copy")), "-live", "1"
    )
    media = await probe(live)
    assert media.duration_ms == pytest.approx(6000, abs=60)
    assert media.picture_end_ms == pytest.approx(6000, abs=60)
    assert await missing_ms(live) == 0


@pytest.mark.parametrize(
    ("name", "options"), [("sound.aac", ()), ("sound.mp3", ("-q:a", "4", "-write_xing", "0"))]
)
async def test_sound_of_an_uneven_rate_that_begins_loud_or_silent_is_whole(
    tmp_path: Path, name: str, options: tuple[str, ...]
) -> None:
    dense = [second / 4 for second in range(40)]
    for beeps in (dense, [second + 50 for second in dense]):
        live = record(tmp_path / "live.mp4", seconds=60, beeps=beeps)
        assert await missing_ms(remake(live, tmp_path / name, "-vn", *options)) == 0
