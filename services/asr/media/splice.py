"""Join encoded edges and copied middle into one clip: `python -m services.asr.media.splice JOB`.

A process of its own, since it opens files of strangers and must be stoppable. JOB is a `Job` as JSON.
"""

from __future__ import annotations

import heapq
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream

from services.asr.media.formats import OPEN_OPTIONS
from services.asr.media.h264 import Configuration

# An audio packet lasts less; one more before the start lets the decoder settle.
_AUDIO_LEAD = Fraction(1, 20)


@dataclass(frozen=True)
class Job:
    """What to join: times are fractions of seconds on the canonical clock, as text.

    The clip is `[first, end)`. `head` holds the encoded frames of `[first, copy_from)` ("": none), then the
    canonical file's own packets of `[copy_from, copy_to)` follow, then `tail` with `[copy_to, end)`.
    """

    canonical: str
    head: str
    tail: str
    out: str
    first: str
    copy_from: str
    copy_to: str
    end: str

    def dumps(self) -> str:
        """Write the job as one JSON line."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class _Piece:
    """Video packets of one file: those shown in `[begin, end)` of its own time, moved by `shift`."""

    path: str
    begin: Fraction
    end: Fraction
    shift: Fraction

    def packets(self) -> Iterator[tuple[Fraction, Packet[Stream]]]:
        """Yield packets in the order they are decoded, each with the time it is shown in the clip."""
        with _opened(self.path) as container:
            stream = container.streams.video[0]
            yield from _between(container, stream, self.begin, self.end, self.shift)


def _opened(path: str) -> InputContainer:
    return av.open(f"file:{path}", options=OPEN_OPTIONS)


def _between(
    container: InputContainer, stream: Stream, begin: Fraction, end: Fraction, shift: Fraction
) -> Iterator[tuple[Fraction, Packet[Stream]]]:
    origin = Fraction(container.start_time or 0, av.time_base)
    container.seek(max(0, int((begin + origin) * av.time_base)), backward=True)
    for packet in container.demux(stream):
        if packet.pts is None or packet.dts is None or packet.time_base is None:
            continue
        time = packet.pts * packet.time_base - origin
        if packet.dts * packet.time_base - origin >= end:
            return
        if begin <= time < end:
            yield time + shift, packet


def join(job: Job) -> None:
    """Write the clip. Memory doesn't grow with its length beyond a number for each frame."""
    first, end = Fraction(job.first), Fraction(job.end)
    copy_from, copy_to = Fraction(job.copy_from), Fraction(job.copy_to)
    pieces = [_Piece(job.canonical, copy_from, copy_to, -first)]
    if job.head:
        pieces.insert(0, _Piece(job.head, Fraction(0), copy_from - first, Fraction(0)))
    if job.tail:
        pieces.append(_Piece(job.tail, Fraction(0), end - copy_to, copy_to - first))
    with ExitStack() as stack:
        source = stack.enter_context(_opened(job.canonical))
        out = stack.enter_context(av.open(f"file:{job.out}", "w", "mp4", options={"movflags": "+faststart"}))
        video_in, audio_in = source.streams.video[0], source.streams.audio[0]
        video, audio = out.add_stream_from_template(video_in), out.add_stream_from_template(audio_in)
        video.codec_context.extradata = _configuration(video_in.codec_context.extradata, job)
        sound = _between(source, audio_in, max(Fraction(0), first - _AUDIO_LEAD), end, -first)
        picture = ((decode, shown, packet, video) for decode, shown, packet in _timed(pieces))
        heard = ((time, time, packet, audio) for time, packet in sound)
        for decode, shown, packet, stream in heapq.merge(picture, heard, key=lambda item: item[0]):
            base = packet.time_base
            packet.stream, packet.time_base = stream, base
            packet.pts, packet.dts = round(shown / base), round(decode / base)
            out.mux(packet)


def _timed(pieces: list[_Piece]) -> Iterator[tuple[Fraction, Fraction, Packet[Stream]]]:
    """Give every packet a time to decode: the sorted times of showing, ahead by what reordering needs."""
    shown = [time for piece in pieces for time, _ in piece.packets()]
    in_order = sorted(shown)
    ahead = max((due - time for due, time in zip(in_order, shown, strict=True)), default=Fraction(0))
    decode = iter(in_order)
    for piece in pieces:
        for time, packet in piece.packets():
            yield next(decode) - ahead, time, packet


def _configuration(record: bytes | None, job: Job) -> bytes:
    """Return the track's header with the parameter sets of the copied and of the encoded packets."""
    edge = job.head or job.tail
    if not edge:
        return record or b""
    configuration = Configuration.parse(record or b"")
    with _opened(edge) as container:
        encoded = container.streams.video[0].codec_context.extradata
    return configuration.joined(Configuration.parse(encoded or b""))


if __name__ == "__main__":
    join(Job(**json.loads(Path(sys.argv[1]).read_text())))
