"""The exact facts of a clip's file, by its packets: what is said of its length is often rounded."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
from av.container import InputContainer
from av.stream import Stream
from av.video.stream import VideoStream

from services.asr.media.errors import NotMedia
from services.asr.media.formats import OPEN_OPTIONS
from services.asr.media.probe import shown_size

_UNEVEN = Fraction(1, 20)


@dataclass(frozen=True)
class Facts:
    """Lengths of picture and sound in seconds (0: there is none), frames a second, size as it is shown.

    `channels` are the sound's.
    """

    picture: Fraction
    sound: Fraction
    fps: Fraction
    width: int
    height: int
    channels: int


def measure(path: Path) -> Facts:
    """Read the facts of the clip at `path`. Decodes a frame at most.

    Raises:
        NotMedia: it can't be opened.
    """
    try:
        with av.open(f"file:{path}", options=OPEN_OPTIONS) as container:
            picture = container.streams.video[0] if container.streams.video else None
            sound = container.streams.audio[0] if container.streams.audio else None
            width, height = shown_size(picture, container) if picture else (0, 0)
            return Facts(
                picture=_length(picture),
                sound=_length(sound),
                fps=_fps(picture, container) if picture else Fraction(0),
                width=width,
                height=height,
                channels=max(1, sound.codec_context.channels) if sound else 0,
            )
    except av.error.FFmpegError as error:
        raise NotMedia(f"the stored clip can't be opened: {error}") from error


def _length(stream: Stream | None) -> Fraction:
    if stream is None or not stream.duration or not stream.time_base:
        return Fraction(0)
    return max(Fraction(0), Fraction(stream.duration) * stream.time_base)


def _fps(stream: VideoStream, container: InputContainer) -> Fraction:
    """Return the rate at which the picture moves: a frame that stays for long lowers the average."""
    average = Fraction(stream.average_rate or stream.base_rate or 0)
    container.seek(0)
    times = sorted(packet.pts for packet in container.demux(stream) if packet.pts is not None)
    steps = sorted(after - before for before, after in pairwise(times) if after > before)
    if not steps or stream.time_base is None:
        return average
    usual = 1 / (steps[len(steps) // 2] * stream.time_base)
    # the average is the more exact one of the two, where times are rounded
    return average if abs(average - usual) <= usual * _UNEVEN else usual
