"""Recordings whose encoder was started again with other settings in the middle: every frame stays right."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.asr.media import canonical, cut
from services.asr.media.probe import probe
from tests.integration.media.recordings import frame_numbers, frame_times, record

SECONDS = 6
FRAMES = SECONDS * 25
# A transport stream that breaks off may lose the last packet, which a demuxer can't know to be whole.
LOST_FROM = FRAMES - 2
OTHER = ("-profile:v", "baseline", "-crf", "34", "-refs", "3")


def joined_flv(first: Path, second: Path, out: Path, *, later_ms: int) -> Path:
    """Write the tags of two files as one, as a server does whose publisher came back."""
    data = bytearray(first.read_bytes())
    tags = second.read_bytes()[13:]
    at = 0
    while at < len(tags):
        size = int.from_bytes(tags[at + 1 : at + 4], "big")
        time = int.from_bytes(tags[at + 4 : at + 7], "big") + (tags[at + 7] << 24) + later_ms
        data += tags[at : at + 4] + (time & 0xFFFFFF).to_bytes(3, "big") + bytes([time >> 24])
        data += tags[at + 8 : at + 11 + size + 4]
        at += 11 + size + 4
    out.write_bytes(data)
    return out


@pytest.mark.parametrize("suffix", ["flv", "ts"])
async def test_a_change_of_the_encoders_settings_spoils_no_frame(tmp_path: Path, suffix: str) -> None:
    first = record(tmp_path / f"first.{suffix}", seconds=SECONDS, beeps=(0.5, 3.25))
    second = record(tmp_path / f"second.{suffix}", seconds=SECONDS, beeps=(0.5, 3.25), output=OTHER)
    live = tmp_path / f"live.{suffix}"
    if suffix == "flv":
        joined_flv(first, second, live, later_ms=SECONDS * 1000)
    else:
        live.write_bytes(first.read_bytes() + second.read_bytes())
    made = await canonical.make(live, tmp_path / "canonical.mp4", await probe(live))
    frames = frame_times(made.path)
    whole = [number for number, _ in frames]
    assert whole[:LOST_FROM] + whole[-FRAMES:] == [*range(LOST_FROM), *range(FRAMES)]
    begins = frames[-FRAMES][1]
    for start, end in ((begins - 2.5, begins + 3.3), (begins - 1, begins + 1), (begins + 0.3, begins + 5.7)):
        span = round(start * 1000), round(end * 1000)
        await cut.cut(made.path, tmp_path / "clip.mp4", *span, media=made.media)
        expected = [n for n, time in frames if span[0] - 40 < time * 1000 < span[1] - 1]
        numbers = frame_numbers(tmp_path / "clip.mp4")
        assert numbers[0] == expected[0], span
        # every frame once and in order; of the last ones, and of those at the join, one may be missing
        places = [i for i, n in enumerate(expected) if n in numbers]
        assert len(places) >= len(expected) - 3, span
        assert numbers == [expected[i] for i in places], span
