"""Join encoded edges and copied middle into one clip: `python -m services.asr.media.splice`.

A process of its own, since it opens files of strangers and must be stoppable. A `Job` comes as JSON on stdin.
"""

from __future__ import annotations

import errno
import heapq
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

from services.asr.media import parameter_sets
from services.asr.media.nal import NotUnderstood
from services.asr.media.packets import new_header, opened, timed

# An audio packet lasts less; one more before the start lets the decoder settle.
_AUDIO_LEAD = Fraction(1, 20)


@dataclass(frozen=True)
class Job:
    """What to join: times are fractions of seconds on the canonical clock, as text.

    The clip is `[first, end)`. `head` holds the encoded frames of `[first, copy_from)` ("": none), then the
    canonical file's own packets of `[copy_from, copy_to)` follow, then `tail` with `[copy_to, end)`. `header`
    is what these packets are decoded by, in hex, `size` their picture's width and height.
    """

    canonical: str
    head: str
    tail: str
    out: str
    first: str
    copy_from: str
    copy_to: str
    end: str
    header: str
    size: tuple[int, int]

    def dumps(self) -> str:
        """Write the job as one JSON line."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class _Piece:
    """Video packets of one file: those shown in `[begin, end)` of its own time, moved by `shift`.

    `rewrite` changes their bytes; None leaves them as they are.
    """

    path: Path
    begin: Fraction
    end: Fraction
    shift: Fraction
    rewrite: Callable[[bytes], bytes] | None = None

    def packets(self) -> Iterator[tuple[Fraction, Packet[Stream]]]:
        """Yield packets in the order they are decoded, each with the time it is shown in the clip."""
        with opened(self.path) as container:
            stream = container.streams.video[0]
            for time, packet in _between(container, stream, self.begin, self.end, self.shift):
                rewrite = self.rewrite or _brought(stream.codec_context.name, packet)
                yield time, packet if rewrite is None else _rewritten(packet, rewrite)


def _brought(codec: str, packet: Packet[Stream]) -> Callable[[bytes], bytes] | None:
    """Return what puts the sets of a header that begins with a packet into its sample; None: none begins.

    The clip has one header, and a sample with sets of its own is understood by every decoder.
    """
    header = new_header(packet)
    if header is None:
        return None
    try:
        return parameter_sets.read(codec, header).with_sets
    except NotUnderstood:
        return None


def _between(
    container: InputContainer, stream: Stream, begin: Fraction, end: Fraction, shift: Fraction
) -> Iterator[tuple[Fraction, Packet[Stream]]]:
    for time, packet in timed(container, stream, begin):
        if packet.pts is None or packet.dts is None:
            continue
        if time - (packet.pts - packet.dts) * packet.time_base >= end:
            return
        if begin <= time < end:
            yield time + shift, packet


def join(job: Job) -> None:
    """Write the clip. Memory doesn't grow with its length beyond a number for each frame."""
    first, end = Fraction(job.first), Fraction(job.end)
    copy_from, copy_to = Fraction(job.copy_from), Fraction(job.copy_to)
    with ExitStack() as stack:
        source = stack.enter_context(opened(Path(job.canonical)))
        out = stack.enter_context(av.open(f"file:{job.out}", "w", "mp4", options={"movflags": "+faststart"}))
        video_in, audio_in = source.streams.video[0], source.streams.audio[0]
        video, audio = out.add_stream_from_template(video_in), out.add_stream_from_template(audio_in)
        header, edge_sample = _joined(video_in, bytes.fromhex(job.header), job.head or job.tail)
        video.codec_context.extradata = header
        video.codec_context.width, video.codec_context.height = job.size
        if video_in.codec_context.name == "hevc":
            # all sets are in the header: players and editing programs of Apple's open nothing else
            video.codec_context.codec_tag = "hvc1"
        pieces = [_Piece(Path(job.canonical), copy_from, copy_to, -first)]
        if job.head:
            pieces.insert(0, _Piece(Path(job.head), Fraction(0), copy_from - first, Fraction(0), edge_sample))
        if job.tail:
            pieces.append(_Piece(Path(job.tail), Fraction(0), end - copy_to, copy_to - first, edge_sample))
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


def _joined(video: VideoStream, header: bytes, edge: str) -> tuple[bytes, Callable[[bytes], bytes] | None]:
    """Return the header of copied and of encoded packets together, and what makes the latter fit to it.

    `edge` is a file of encoded packets; empty when there are none.
    """
    if not edge:
        return header, None
    configuration = parameter_sets.read(video.codec_context.name, header)
    with opened(Path(edge)) as container:
        context = container.streams.video[0].codec_context
        encoded = parameter_sets.read(context.name, context.extradata)
    return configuration.joined(encoded), configuration.edge_sample


def _rewritten(packet: Packet[Stream], rewrite: Callable[[bytes], bytes]) -> Packet[Stream]:
    made: Packet[Stream] = Packet(rewrite(bytes(packet)))
    made.pts, made.dts, made.duration = packet.pts, packet.dts, packet.duration
    made.time_base, made.is_keyframe = packet.time_base, packet.is_keyframe
    return made


if __name__ == "__main__":
    try:
        join(Job(**json.load(sys.stdin)))
    except MemoryError as error:
        # as the system names it: who started this knows errors by their texts
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from error
