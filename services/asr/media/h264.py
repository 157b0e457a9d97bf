"""The parts of H.264 that a splice needs: parameter sets in an MP4's header, and true restart points."""

from __future__ import annotations

from dataclasses import dataclass

from services.asr.media.nal import NotUnderstood, bits, number_at, packed, sized_units, units

_IDR = 5
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

    def edge_options(self) -> tuple[str, ...]:
        """See Configuration; the encoder numbers its sets as it is told."""
        return ("-x264-params", f"sps-id={self.free_id()}")

    def free_id(self) -> int:
        """Return an id that neither a sequence nor a picture parameter set of this track has."""
        taken = {number_at(bits(unit[4:12]), 0)[0] for unit in self.sps}
        taken |= {number_at(bits(unit[1:9]), 0)[0] for unit in self.pps}
        return next(number for number in range(1, _MOST_SPS_ID + 1) if number not in taken)

    def joined(self, edges: AvcConfiguration) -> bytes:
        """See Configuration; the ids must differ."""
        if edges.length_size != self.length_size:
            raise NotUnderstood("the edges measure their units in another way")
        sps, pps = self.sps + edges.sps, self.pps + edges.pps
        if len(sps) > _MOST_SPS_ID or len(pps) > _MOST_PPS_ID:
            raise NotUnderstood("too many parameter sets")
        return b"".join(
            (self.head, bytes([0xE0 | len(sps)]), packed(sps), bytes([len(pps)]), packed(pps), self.tail)
        )

    def edge_sample(self, sample: bytes) -> bytes:
        """See Configuration; its numbers are right already."""
        return sample
