"""The parts of H.264 that a splice needs: parameter sets in an MP4's header, and true restart points."""

from __future__ import annotations

from dataclasses import dataclass

from services.asr.media.nal import NotUnderstood, bits, number_at, packed, sized, sized_units, units

_IDR, _SPS, _PPS = 5, 7, 8
# Profiles whose records end with the format of the samples; ours is 4:2:0 of 8 bits.
_HIGH_PROFILES = frozenset({100, 110, 122, 144, 244})
_HIGH_TAIL = b"\xfd\xf8\xf8\x00"
_MOST_PPS_ID = 255
_MOST_SPS_ID = 31


@dataclass(frozen=True)
class AvcConfiguration:
    """An AVC decoder configuration record: the parameter sets that a track's samples refer to by id."""

    head: bytes
    sps: tuple[bytes, ...]
    pps: tuple[bytes, ...]
    tail: bytes

    @classmethod
    def parse(cls, record: bytes) -> AvcConfiguration:
        """Read a record. Raises NotUnderstood."""
        if len(record) < 8 or record[0] != 1:
            raise NotUnderstood("no AVC configuration record")
        sps, at = sized_units(record, 6, record[5] & 0x1F)
        if at >= len(record):
            raise NotUnderstood("the AVC configuration record ends early")
        pps, at = sized_units(record, at + 1, record[at])
        return cls(record[:5], sps, pps, record[at:])

    @property
    def length_size(self) -> int:
        """Bytes of the length before each unit of a sample."""
        return (self.head[4] & 3) + 1

    def is_restart(self, sample: bytes) -> bool:
        """See Configuration.

        The key frame flag isn't enough: with open groups frames shown before a key frame are stored behind
        it and refer to the group before.
        """
        return any(unit[:1] and unit[0] & 0x1F == _IDR for unit in units(sample, self.length_size))

    def begins(self, sample: bytes) -> bool:
        """See Configuration."""
        return self.is_restart(sample)

    def updated_by(self, sample: bytes) -> AvcConfiguration:
        """See Configuration."""
        sps, pps = ({_id(unit): unit for unit in found} for found in (self.sps, self.pps))
        for unit in units(sample, self.length_size):
            kind = unit[0] & 0x1F if unit else 0
            if kind in {_SPS, _PPS}:
                (sps if kind == _SPS else pps)[_id(unit)] = unit.rstrip(b"\0")
        found = tuple(sps.values()), tuple(pps.values())
        if found == (self.sps, self.pps):
            return self
        profile = found[0][0][1]
        head = self.head[:1] + found[0][0][1:4] + self.head[4:]
        return AvcConfiguration(head, *found, (self.tail or _HIGH_TAIL) if profile in _HIGH_PROFILES else b"")

    def edge_options(self) -> tuple[str, ...]:
        """See Configuration; the encoder numbers its sets as it is told."""
        return ("-x264-params", f"sps-id={self.free_id()}")

    def free_id(self) -> int:
        """Return an id that neither a sequence nor a picture parameter set of this track has."""
        taken = {_id(unit) for unit in self.sps + self.pps}
        return next(number for number in range(1, _MOST_SPS_ID + 1) if number not in taken)

    def joined(self, edges: AvcConfiguration) -> bytes:
        """See Configuration; the ids must differ."""
        if edges.length_size != self.length_size:
            raise NotUnderstood("the edges measure their units in another way")
        if len(self.sps) + len(edges.sps) > _MOST_SPS_ID or len(self.pps) + len(edges.pps) > _MOST_PPS_ID:
            raise NotUnderstood("too many parameter sets")
        return AvcConfiguration(self.head, self.sps + edges.sps, self.pps + edges.pps, self.tail).record()

    def record(self) -> bytes:
        """See Configuration."""
        sps = bytes([0xE0 | len(self.sps)]) + packed(self.sps)
        return self.head + sps + bytes([len(self.pps)]) + packed(self.pps) + self.tail

    def with_sets(self, sample: bytes) -> bytes:
        """See Configuration."""
        return sized(self.sps + self.pps, self.length_size) + sample

    def edge_sample(self, sample: bytes) -> bytes:
        """See Configuration; its numbers are right already."""
        return sample


def _id(unit: bytes) -> int:
    """Return the number of a parameter set; of a sequence's it stands behind profile and level."""
    at = 4 if unit[0] & 0x1F == _SPS else 1
    return number_at(bits(unit[at : at + 8]), 0)[0]
