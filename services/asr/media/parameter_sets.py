"""What a splice needs to know of a track's codec, the same for each codec that can be spliced."""

from __future__ import annotations

from typing import Protocol, Self

from services.asr.media.h264 import AvcConfiguration
from services.asr.media.hevc import HevcConfiguration
from services.asr.media.nal import NotUnderstood


class Configuration(Protocol):
    """A track's header: the parameter sets that its samples refer to by number."""

    def is_restart(self, sample: bytes) -> bool:
        """Tell whether nothing behind a sample, in the order of decoding, refers to anything before it."""
        ...

    def begins(self, sample: bytes) -> bool:
        """Tell whether a stream can begin with a sample when the frames shown before it are left out."""
        ...

    def edge_options(self) -> tuple[str, ...]:
        """Return what the encoder of edges is told, so that they can be joined."""
        ...

    def joined(self, edges: Self) -> bytes:
        """Return a header with the parameter sets of this track and of the edges. Raises NotUnderstood."""
        ...

    def edge_sample(self, sample: bytes) -> bytes:
        """Return an edge's sample as it refers to its sets in the joined header. Raises NotUnderstood."""
        ...


_KINDS: dict[str, type[AvcConfiguration | HevcConfiguration]] = {
    "h264": AvcConfiguration,
    "hevc": HevcConfiguration,
}


def read(codec: str, record: bytes | None) -> Configuration:
    """Read a track's header into a Configuration.

    Raises:
        NotUnderstood: it is broken, or of a codec that isn't spliced.
    """
    kind = _KINDS.get(codec)
    if kind is None:
        raise NotUnderstood(f"{codec} isn't spliced")
    return kind.parse(record or b"")
