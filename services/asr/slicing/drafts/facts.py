"""The exact facts of a clip's file, by its packets: what is said of its length is often rounded."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
from av.stream import Stream

from services.asr.media.errors import NotMedia
from services.asr.media.formats import OPEN_OPTIONS


@dataclass(frozen=True)
class Facts:
    """Lengths of picture and sound in seconds (0: there is none), frames a second, size in pixels."""

    picture: Fraction
    sound: Fraction
    fps: Fraction
    width: int
    height: int


def measure(path: Path) -> Facts:
    """Read the facts of the clip at `path`. Decodes nothing.

    Raises:
        NotMedia: it can't be opened.
    """
    try:
        with av.open(f"file:{path}", options=OPEN_OPTIONS) as container:
            picture = container.streams.video[0] if container.streams.video else None
            sound = container.streams.audio[0] if container.streams.audio else None
            context = picture.codec_context if picture else None
            return Facts(
                picture=_length(picture),
                sound=_length(sound),
                fps=_fps(picture.average_rate, picture.base_rate) if picture else Fraction(0),
                width=context.width if context else 0,
                height=context.height if context else 0,
            )
    except av.error.FFmpegError as error:
        raise NotMedia(f"the stored clip can't be opened: {error}") from error


def _length(stream: Stream | None) -> Fraction:
    if stream is None or not stream.duration or not stream.time_base:
        return Fraction(0)
    return max(Fraction(0), Fraction(stream.duration) * stream.time_base)


def _fps(average: Fraction | None, base: Fraction | None) -> Fraction:
    return Fraction(average or base or 0)
