"""The parts of H.264 that a splice needs: parameter sets in an MP4's header, and true restart points."""

from __future__ import annotations

from dataclasses import dataclass

_IDR = 5
_MOST_PPS_ID = 255
_MOST_SPS_ID = 31


class NotAvc(ValueError):
    """The bytes are no AVC decoder configuration record."""


@dataclass(frozen=True)
class Configuration:
    """An AVC decoder configuration record: the parameter sets that a track's samples refer to by id."""

    head: bytes
    sps: tuple[bytes, ...]
    pps: tuple[bytes, ...]
    tail: bytes

    @classmethod
    def parse(cls, record: bytes) -> Configuration:
        """Read a record. Raises NotAvc."""
        if len(record) < 8 or record[0] != 1:
            raise NotAvc("no AVC configuration record")
        sps, at = _sets(record, 6, record[5] & 0x1F)
        if at >= len(record):
            raise NotAvc("the AVC configuration record ends early")
        pps, at = _sets(record, at + 1, record[at])
        return cls(record[:5], sps, pps, record[at:])

    @property
    def length_size(self) -> int:
        """Bytes of the length before each unit of a sample."""
        return (self.head[4] & 3) + 1

    def free_id(self) -> int:
        """Return an id that neither a sequence nor a picture parameter set of this track has."""
        taken = {_first_number(unit[4:]) for unit in self.sps} | {
            _first_number(unit[1:]) for unit in self.pps
        }
        return next(number for number in range(1, _MOST_SPS_ID + 1) if number not in taken)

    def joined(self, other: Configuration) -> bytes:
        """Return a record with the sets of both; their ids must differ."""
        sps, pps = self.sps + other.sps, self.pps + other.pps
        if len(sps) > _MOST_SPS_ID or len(pps) > _MOST_PPS_ID:
            raise NotAvc("too many parameter sets")
        return b"".join(
            (self.head, bytes([0xE0 | len(sps)]), _packed(sps), bytes([len(pps)]), _packed(pps), self.tail)
        )


def is_restart(sample: bytes, length_size: int) -> bool:
    """Tell whether a sample is an IDR picture: nothing behind it refers to anything before it.

    The key frame flag isn't enough: with open groups frames shown before a key frame are stored behind it
    and refer to the group before.
    """
    at = 0
    while at + length_size < len(sample):
        length = int.from_bytes(sample[at : at + length_size], "big")
        if sample[at + length_size] & 0x1F == _IDR:
            return True
        at += length_size + length
    return False


def _sets(record: bytes, at: int, count: int) -> tuple[tuple[bytes, ...], int]:
    found: list[bytes] = []
    for _ in range(count):
        length = int.from_bytes(record[at : at + 2], "big")
        unit = record[at + 2 : at + 2 + length]
        if not length or len(unit) < length:
            raise NotAvc("the AVC configuration record ends early")
        found.append(unit)
        at += 2 + length
    return tuple(found), at


def _packed(units: tuple[bytes, ...]) -> bytes:
    return b"".join(len(unit).to_bytes(2, "big") + unit for unit in units)


def _first_number(payload: bytes) -> int:
    """Read the Exp-Golomb number that a payload begins with: the id of a parameter set."""
    bits = "".join(f"{byte:08b}" for byte in payload[:8])
    zeros = len(bits) - len(bits.lstrip("0"))
    return int(bits[zeros : 2 * zeros + 1] or "1", 2) - 1
