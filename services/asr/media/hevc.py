"""The parts of HEVC that a splice needs: parameter sets in an MP4's header, restart points, other numbers.

No encoder of HEVC can be told how to number its parameter sets, so the encoded edges get other numbers
afterwards: in the sets, and in each slice, which names its picture parameter set at its very beginning. A
number between 15 and 30 there has eight bits more than 0 has, so that what follows moves by a whole byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.asr.media.nal import (
    NotUnderstood,
    bits,
    escaped,
    number_at,
    number_bits,
    packed,
    sized,
    sized_units,
    unescaped,
    units,
    with_number,
)

_VPS, _SPS, _PPS = 32, 33, 34
_IDR = frozenset({19, 20})
_FIRST_IRAP, _LAST_IRAP, _LAST_SLICE = 16, 23, 31
_HEAD_BYTES, _UNIT_HEAD_BYTES = 22, 2
# Before its number a sequence parameter set has one byte and the profile's twelve.
_SPS_NUMBER_AT = 13 * 8
# Where a sequence parameter set has the profile, tier and level that a record begins with.
_PROFILE_AT, _PROFILE_BYTES = 3, 12
_VPS_IDS, _SPS_IDS, _PPS_IDS = range(1, 16), range(1, 16), range(15, 31)


@dataclass(frozen=True)
class HevcConfiguration:
    """An HEVC decoder configuration record: each kind of unit in it with the units."""

    head: bytes
    arrays: tuple[tuple[int, tuple[bytes, ...]], ...]

    @classmethod
    def parse(cls, record: bytes) -> HevcConfiguration:
        """Read a record. Raises NotUnderstood."""
        if len(record) <= _HEAD_BYTES or record[0] != 1:
            raise NotUnderstood("no HEVC configuration record")
        arrays, at = [], _HEAD_BYTES + 1
        for _ in range(record[_HEAD_BYTES]):
            if at + 3 > len(record):
                raise NotUnderstood("the HEVC configuration record ends early")
            kind, count = record[at] & 0x3F, int.from_bytes(record[at + 1 : at + 3], "big")
            found, at = sized_units(record, at + 3, count)
            arrays.append((kind, found))
        made = cls(record[:_HEAD_BYTES], tuple(arrays))
        if not all(made.sets(kind) for kind in (_VPS, _SPS, _PPS)):
            raise NotUnderstood("the HEVC configuration record has no parameter sets")
        return made

    def sets(self, kind: int) -> tuple[bytes, ...]:
        """Return the units of one kind."""
        return tuple(unit for held, found in self.arrays if held == kind for unit in found)

    def is_restart(self, sample: bytes) -> bool:
        """See Configuration. A clean random access picture is none: others before it may refer over it."""
        return any(_kind(unit) in _IDR for unit in units(sample, self.length_size))

    def begins(self, sample: bytes) -> bool:
        """See Configuration. Of a clean random access picture only those before it refer over it."""
        kinds = (_kind(unit) for unit in units(sample, self.length_size))
        return any(_FIRST_IRAP <= kind <= _LAST_IRAP for kind in kinds)

    def edge_options(self) -> tuple[str, ...]:
        """See Configuration."""
        return ()

    def joined(self, edges: HevcConfiguration) -> bytes:
        """See Configuration."""
        if edges.length_size != self.length_size:
            raise NotUnderstood("the edges measure their units in another way")
        vps, sps, pps = self._free()
        theirs = {
            _VPS: tuple(_vps(unit, vps) for unit in edges.sets(_VPS)),
            _SPS: tuple(_sps(unit, vps, sps) for unit in edges.sets(_SPS)),
            _PPS: tuple(_pps(unit, sps, pps) for unit in edges.sets(_PPS)),
        }
        if any(len(found) != 1 for found in theirs.values()):
            raise NotUnderstood("the edges have several parameter sets of a kind")
        return self._written([(kind, found + theirs.get(kind, ())) for kind, found in self.arrays])

    def _written(self, arrays: Sequence[tuple[int, tuple[bytes, ...]]]) -> bytes:
        return b"".join(
            (
                *(self.head, bytes([len(arrays)])),
                # complete: no sample brings sets of its own
                *(bytes([0x80 | kind]) + len(f).to_bytes(2, "big") + packed(f) for kind, f in arrays),
            )
        )

    def edge_sample(self, sample: bytes) -> bytes:
        """See Configuration."""
        _, _, pps = self._free()
        made = [
            _slice(unit, pps) if _kind(unit) <= _LAST_SLICE else unit
            for unit in units(sample, self.length_size)
        ]
        return sized(made, self.length_size)

    def updated_by(self, sample: bytes) -> HevcConfiguration:
        """See Configuration."""
        sets = {kind: {_id(unit): unit for unit in self.sets(kind)} for kind in (_VPS, _SPS, _PPS)}
        for unit in units(sample, self.length_size):
            if _kind(unit) in sets:
                sets[_kind(unit)][_id(unit)] = unit.rstrip(b"\0")
        found = {kind: tuple(held.values()) for kind, held in sets.items()}
        if all(self.sets(kind) == held for kind, held in found.items()):
            return self
        others = tuple(array for array in self.arrays if array[0] not in found)
        level = unescaped(found[_SPS][0])[_PROFILE_AT : _PROFILE_AT + _PROFILE_BYTES]
        head = self.head[:1] + level + self.head[1 + _PROFILE_BYTES :]
        return HevcConfiguration(head, (*found.items(), *others))

    def with_sets(self, sample: bytes) -> bytes:
        """See Configuration."""
        sets = (unit for kind in (_VPS, _SPS, _PPS) for unit in self.sets(kind))
        return sized(sets, self.length_size) + sample

    def record(self) -> bytes:
        """See Configuration."""
        return self._written(self.arrays)

    @property
    def length_size(self) -> int:
        """Bytes of the length before each unit of a sample."""
        return (self.head[21] & 3) + 1

    def _free(self) -> tuple[int, int, int]:
        """Return ids of a video, a sequence and a picture parameter set that this track doesn't have."""
        taken = [{_id(unit) for unit in self.sets(kind)} for kind in (_VPS, _SPS, _PPS)]
        free = [
            next((number for number in ids if number not in used), None)
            for ids, used in zip((_VPS_IDS, _SPS_IDS, _PPS_IDS), taken, strict=True)
        ]
        vps, sps, pps = free
        if vps is None or sps is None or pps is None:
            raise NotUnderstood("the recording uses all numbers of parameter sets")
        return vps, sps, pps


def _kind(unit: bytes) -> int:
    return unit[0] >> 1 & 0x3F if unit else -1


def _number(unit: bytes, at: int) -> int:
    payload = unescaped(unit)[_UNIT_HEAD_BYTES:]
    return number_at(bits(payload[: at // 8 + 8]), at)[0]


def _id(unit: bytes) -> int:
    """Return the number of a parameter set."""
    if _kind(unit) == _VPS:
        return unit[_UNIT_HEAD_BYTES] >> 4
    return _number(unit, _SPS_NUMBER_AT if _kind(unit) == _SPS else 0)


def _vps(unit: bytes, vps: int) -> bytes:
    head, payload = unit[:_UNIT_HEAD_BYTES], unit[_UNIT_HEAD_BYTES:]
    return head + bytes([vps << 4 | payload[0] & 0x0F]) + payload[1:]


def _sps(unit: bytes, vps: int, sps: int) -> bytes:
    plain = unescaped(unit)
    payload = plain[_UNIT_HEAD_BYTES:]
    if payload[0] >> 1 & 7:
        raise NotUnderstood("the edges have several layers of time")
    payload = bytes([vps << 4 | payload[0] & 0x0F]) + payload[1:]
    return escaped(plain[:_UNIT_HEAD_BYTES] + with_number(payload, _SPS_NUMBER_AT, sps))


def _pps(unit: bytes, sps: int, pps: int) -> bytes:
    plain = unescaped(unit)
    payload = with_number(plain[_UNIT_HEAD_BYTES:], 0, pps)
    return escaped(plain[:_UNIT_HEAD_BYTES] + with_number(payload, len(number_bits(pps)), sps))


def _slice(unit: bytes, pps: int) -> bytes:
    """Have a slice name another picture parameter set than 0."""
    plain = unescaped(unit)
    flags = 2 if _FIRST_IRAP <= _kind(unit) <= _LAST_IRAP else 1
    first = f"{plain[_UNIT_HEAD_BYTES]:08b}"
    if first[flags] != "1":
        raise NotUnderstood("the edges have several picture parameter sets")
    changed = first[:flags] + number_bits(pps) + first[flags + 1 :]
    longer = int(changed, 2).to_bytes(2, "big")
    return escaped(plain[:_UNIT_HEAD_BYTES] + longer + plain[_UNIT_HEAD_BYTES + 1 :])
