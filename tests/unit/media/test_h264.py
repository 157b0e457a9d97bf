"""What a splice needs to know of H.264."""

import pytest

from services.asr.media.h264 import AvcConfiguration
from services.asr.media.nal import NotUnderstood

SPS0 = bytes.fromhex("6764000dac")  # profile, constraints, level, then id 0 and what follows
PPS0 = bytes.fromhex("68ebe3")
SPS1 = bytes.fromhex("6764000d4b")
PPS1 = bytes.fromhex("684ae3")


def record(sps: tuple[bytes, ...], pps: tuple[bytes, ...], tail: bytes = b"\xfd\xf8\xf8\x00") -> bytes:
    units = b"".join(len(unit).to_bytes(2, "big") + unit for unit in sps)
    pictures = b"".join(len(unit).to_bytes(2, "big") + unit for unit in pps)
    return b"\x01\x64\x00\x0d\xff" + bytes([0xE0 | len(sps)]) + units + bytes([len(pps)]) + pictures + tail


def test_a_record_is_read_and_joined_with_another() -> None:
    first, second = (
        AvcConfiguration.parse(record((SPS0,), (PPS0,))),
        AvcConfiguration.parse(record((SPS1,), (PPS1,))),
    )
    assert (first.sps, first.pps, first.length_size) == ((SPS0,), (PPS0,), 4)
    joined = AvcConfiguration.parse(first.joined(second))
    assert (joined.sps, joined.pps, joined.tail) == ((SPS0, SPS1), (PPS0, PPS1), first.tail)


def test_the_free_id_is_one_that_no_set_has() -> None:
    assert AvcConfiguration.parse(record((SPS0,), (PPS0,))).free_id() == 1
    assert AvcConfiguration.parse(record((SPS0, SPS1), (PPS0,))).free_id() == 2
    assert AvcConfiguration.parse(record((SPS0,), (PPS0, PPS1))).free_id() == 2


def test_edges_that_measure_their_units_differently_are_refused() -> None:
    first = AvcConfiguration.parse(record((SPS0,), (PPS0,)))
    other = AvcConfiguration.parse(first.head[:4] + b"\xfd" + record((SPS1,), (PPS1,))[5:])
    with pytest.raises(NotUnderstood, match="another way"):
        first.joined(other)


@pytest.mark.parametrize("broken", [b"", b"\x00" * 20, record((SPS0,), (PPS0,))[:9], record((b"",), (PPS0,))])
def test_what_is_no_record_is_refused(broken: bytes) -> None:
    with pytest.raises(NotUnderstood):
        AvcConfiguration.parse(broken)


def test_only_an_idr_picture_is_a_restart() -> None:
    prefix, idr, other = bytes.fromhex("06050102"), bytes.fromhex("658884"), bytes.fromhex("419a24")

    def sample(*units: bytes) -> bytes:
        return b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)

    track = AvcConfiguration.parse(record((SPS0,), (PPS0,)))
    assert track.is_restart(sample(prefix, idr))
    assert not any(map(track.is_restart, (sample(prefix, other), b"", bytes(3), bytes(8))))


def test_sets_that_a_sample_brings_replace_those_of_the_same_number() -> None:
    track = AvcConfiguration.parse(record((SPS0,), (PPS0,)))
    idr, other_sps = bytes.fromhex("658884"), bytes.fromhex("6742c01eab")

    def sample(*units: bytes) -> bytes:
        return b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)

    assert track.updated_by(sample(idr)) is track
    assert track.updated_by(sample(SPS0, PPS0 + b"\0", idr)) is track, "zeros behind a unit are none of it"
    changed = track.updated_by(sample(other_sps, PPS1, idr))
    assert (changed.sps, changed.pps) == ((other_sps,), (PPS0, PPS1))
    assert changed.record()[1:4] == other_sps[1:4], "profile and level are the new set's"
    assert AvcConfiguration.parse(changed.record()) == changed
    assert changed.tail == b"", "the baseline profile has no more to say"
    assert changed.updated_by(sample(SPS0, idr)).tail == track.tail
    assert changed.with_sets(sample(idr)) == sample(other_sps, PPS0, PPS1, idr)


def test_a_record_is_written_as_it_was_read() -> None:
    whole = record((SPS0, SPS1), (PPS0, PPS1))
    assert AvcConfiguration.parse(whole).record() == whole
