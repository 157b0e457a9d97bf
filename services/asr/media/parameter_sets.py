"""What a splice needs to know of a track's codec, the same for each codec that can be spliced."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Protocol, Self

from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

from services.asr.media.h264 import AvcConfiguration
from services.asr.media.hevc import HevcConfiguration
from services.asr.media.nal import NotUnderstood
from services.asr.media.packets import new_header, timed


class Configuration(Protocol):
    """A track's header: the parameter sets that its samples refer to by number."""

    def is_restart(self, sample: bytes) -> bool:
        """Tell whether nothing behind a sample, in the order of decoding, refers to anything before it."""
        ...

    def begins(self, sample: bytes) -> bool:
        """Tell whether a stream can begin with a sample when the frames shown before it are left out."""
        ...

    def updated_by(self, sample: bytes) -> Self:
        """Return the configuration that holds from a sample on, which may bring sets of its own.

        It is the same object while it is equal. Raises NotUnderstood.
        """
        ...

    def record(self) -> bytes:
        """Return the header of a track in which all of this holds from the beginning."""
        ...

    def with_sets(self, sample: bytes) -> bytes:
        """Return a sample that brings all the sets with it."""
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


def configured(
    container: InputContainer, stream: VideoStream, at: Fraction
) -> Iterator[tuple[Fraction, Packet[Stream], Configuration]]:
    """Yield what `packets.timed` does, each packet with the configuration that it is decoded by.

    An encoder that was started again on the way brings its own: in a header, or in its key frames.

    Raises:
        NotUnderstood: a configuration is broken, or of a codec that isn't spliced.
    """
    codec = stream.codec_context.name
    configuration = read(codec, stream.codec_context.extradata)
    for time, packet in timed(container, stream, at):
        header = new_header(packet)
        if header is not None:
            configuration = read(codec, header)
        if packet.is_keyframe:
            configuration = configuration.updated_by(bytes(packet))
        yield time, packet, configuration
