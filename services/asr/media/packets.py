"""Reading a recording's packets without decoding them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream

from services.asr.media.formats import LOOK_LONGER, OPEN_OPTIONS

MOST_REORDERED = 16
"""How many frames at most are stored before one that is shown earlier, by the standards of H.264 and HEVC."""


def opened(path: Path, *, late: bool = False) -> InputContainer:
    """Open a local file; only containers of recordings are opened at all. `late`: see `probe.Media`."""
    return av.open(f"file:{path}", options=OPEN_OPTIONS | (LOOK_LONGER if late else {}))


def demuxed(container: InputContainer, *streams: Stream) -> Iterator[Packet[Stream]]:
    """Yield the packets of some streams to the end of the file, in its order."""
    while True:
        try:
            yield from container.demux(*streams)
        except IndexError:
            # a packet of a stream that begins on the way, as subtitles may, which PyAV doesn't know
            continue
        return


def timed(
    container: InputContainer, stream: Stream, at: Fraction
) -> Iterator[tuple[Fraction, Packet[Stream]]]:
    """Yield (time shown, packet) in the order of decoding, from a key frame at or before `at` on.

    Times are seconds since the container's first packet, which are the recording's in a canonical file.
    """
    origin = Fraction(container.start_time or 0, av.time_base)
    container.seek(max(0, int((at + origin) * av.time_base)), backward=True)
    for packet in demuxed(container, stream):
        if packet.pts is not None and packet.time_base is not None:
            yield packet.pts * packet.time_base - origin, packet


def new_header(packet: Packet[Any]) -> bytes | None:
    """Return the header that a track has from a packet on; None: as before.

    Where it isn't the track's first one, the first packet behind a seek brings it as well.
    """
    return bytes(packet.get_sidedata("new_extradata")) if packet.has_sidedata("new_extradata") else None
