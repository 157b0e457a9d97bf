"""What a splice needs to know of HEVC: numbers of parameter sets, and how they are changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.asr.media import nal
from services.asr.media.hevc import HevcConfiguration
from services.asr.media.nal import NotUnderstood

# Of libx265 at 208 x 120: kind and layer, then id 0 and what follows.
VPS = bytes.fromhex("40010c01ffff01600000030090000003000003003c959409")
SPS = bytes.fromhex("42010101600000030090000003000003003ca01a2079659596e4c2f0168080000003008000000c84")
PPS = bytes.fromhex("4401c173c089")
HEAD = bytes.fromhex("0101600000009000000000003cf000fcfdf8f800000f")


def record(*arrays: tuple[int, tuple[bytes, ...]]) -> bytes:
    made = bytes([len(arrays)])
    for kind, found in arrays:
        made += bytes([0x80 | kind]) + len(found).to_bytes(2, "big") + nal.packed(found)
    return HEAD + made


WHOLE = record((32, (VPS,)), (33, (SPS,)), (34, (PPS,)))


def sample(*units: bytes) -> bytes:
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)


@given(st.binary(max_size=60).map(lambda data: data + b"\x80"))
def test_escaping_is_undone_and_leaves_no_start_code(data: bytes) -> None:
    escaped = nal.escaped(data)
    assert nal.unescaped(escaped) == data
    assert all(escaped[i : i + 3] not in (b"\0\0\0", b"\0\0\1", b"\0\0\2") for i in range(len(escaped)))


@given(st.integers(0, 300), st.integers(0, 300), st.text("01", max_size=40))
def test_another_number_moves_what_follows_it(number: int, other: int, rest: str) -> None:
    text = "101" + nal.number_bits(number) + rest + "1"
    text += "0" * (-len(text) % 8)
    payload = bytes(int(text[i : i + 8], 2) for i in range(0, len(text), 8))
    made = nal.bits(nal.with_number(payload, 3, other))
    assert nal.number_at(made, 3) == (other, len(nal.number_bits(other)))
    assert made.rstrip("0") == "101" + nal.number_bits(other) + rest + "1"


def test_the_edges_sets_get_numbers_that_the_recording_does_not_have() -> None:
    track = HevcConfiguration.parse(WHOLE)
    joined = HevcConfiguration.parse(track.joined(HevcConfiguration.parse(WHOLE)))
    assert joined.head == track.head
    (vps, vps2), (sps, sps2), (pps, pps2) = (joined.sets(kind) for kind in (32, 33, 34))
    assert (vps, sps, pps) == (VPS, SPS, PPS)
    assert (vps2[2] >> 4, nal.unescaped(sps2)[2] >> 4) == (1, 1)
    assert nal.number_at(nal.bits(nal.unescaped(sps2)[2:]), 13 * 8)[0] == 1
    bits = nal.bits(nal.unescaped(pps2)[2:])
    assert (nal.number_at(bits, 0)[0], nal.number_at(bits, 9)[0]) == (15, 1)
    # once more: the numbers of before are taken
    again = HevcConfiguration.parse(joined.joined(HevcConfiguration.parse(WHOLE)))
    assert nal.number_at(nal.bits(again.sets(34)[2][2:]), 0)[0] == 16


def test_a_slice_names_another_set_and_is_one_byte_longer() -> None:
    track = HevcConfiguration.parse(WHOLE)
    restart, following, message = (
        bytes.fromhex("2601" + "ac123456"),
        bytes.fromhex("0201" + "d0123456"),
        bytes.fromhex("4e01" + "0500"),
    )
    made = list(nal.units(track.edge_sample(sample(message, restart, following)), 4))
    assert made[0] == message
    # flags, then 15 in nine bits instead of 0 in one, then the rest of the byte
    assert nal.bits(made[1][2:4]) == "10" + "000010000" + "01100"
    assert nal.bits(made[2][2:4]) == "1" + "000010000" + "010000"
    assert [unit[4:] for unit in made[1:]] == [bytes.fromhex("123456")] * 2


def test_only_an_idr_picture_is_a_restart_and_a_clip_may_begin_with_any_random_access_picture() -> None:
    track = HevcConfiguration.parse(WHOLE)
    idr, other_idr, clean, trailing = (bytes([kind << 1, 1, 0xAC]) for kind in (19, 20, 21, 1))
    assert [track.is_restart(sample(unit)) for unit in (idr, other_idr, clean, trailing)] == [
        True, True, False, False,
    ]  # fmt: skip
    assert [track.begins(sample(unit)) for unit in (idr, clean, trailing, b"")] == [True, True, False, False]


@pytest.mark.parametrize(
    "broken",
    [b"", bytes(40), WHOLE[:-3], record((33, (SPS,)), (34, (PPS,))), WHOLE[:24], record((32, (b"",)))],
)
def test_what_is_no_record_is_refused(broken: bytes) -> None:
    with pytest.raises(NotUnderstood):
        HevcConfiguration.parse(broken)


def test_a_track_without_a_free_number_is_refused() -> None:
    taken = tuple(nal.with_number(PPS[2:], 0, number) for number in range(15, 31))
    full = record((32, (VPS,)), (33, (SPS,)), (34, tuple(b"\x44\x01" + unit for unit in taken)))
    with pytest.raises(NotUnderstood, match="all numbers"):
        HevcConfiguration.parse(full).joined(HevcConfiguration.parse(WHOLE))


def test_sets_that_a_sample_brings_replace_those_of_the_same_number() -> None:
    track = HevcConfiguration.parse(WHOLE)
    idr = bytes([19 << 1, 1, 0xAC])
    # another level, and a video set of another number beside the first
    other_sps = SPS.replace(bytes.fromhex("03003ca0"), bytes.fromhex("03005da0"))
    other_vps = VPS[:2] + bytes([VPS[2] | 0x10]) + VPS[3:]
    assert track.updated_by(sample(VPS, SPS, PPS, idr)) is track
    assert track.record() == WHOLE
    changed = track.updated_by(sample(other_vps, other_sps, idr))
    assert [changed.sets(kind) for kind in (32, 33, 34)] == [(VPS, other_vps), (other_sps,), (PPS,)]
    assert changed.head == HEAD[:12] + bytes([0x5D]) + HEAD[13:]
    assert HevcConfiguration.parse(changed.record()) == changed
    assert changed.with_sets(sample(idr)) == sample(VPS, other_vps, other_sps, PPS, idr)
