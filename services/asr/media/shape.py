"""The picture's size and format at a moment, for recordings whose encoder changes on the way."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
from av.video.frame import VideoFrame

from services.asr.media.nal import NotUnderstood
from services.asr.media.packets import opened, timed
from services.asr.media.parameter_sets import configured


@dataclass(frozen=True)
class Shape:
    """Width and height as stored, the pixels' format, and by how many degrees a player turns them."""

    width: int
    height: int
    pixels: str
    rotation: int

    def filter(self, *, turned: bool) -> str:
        """Return the filter that brings any picture to this size without distorting it.

        `turned`: pictures reach it as players show them, not as they are stored.
        """
        size = (self.width, self.height)
        width, height = reversed(size) if turned and self.rotation % 180 else size
        fitted = f"scale={width}:{height}:force_original_aspect_ratio=decrease"
        return f"{fitted},pad={width}:{height}:-1:-1:eval=frame"


def shape_at(canonical: Path, at: Fraction) -> Shape | None:
    """Return the shape of the last key frame at or before `at` (else of the first); None: none is whole.

    Decodes a few frames at most.
    """
    with opened(canonical) as container, contextlib.suppress(av.error.FFmpegError):
        stream = container.streams.video[0]
        frames: list[VideoFrame] = []
        fed = False
        for time, packet in timed(container, stream, at):
            if not packet.is_keyframe:
                continue
            if time > at and fed:
                break
            frames += stream.decode(packet)
            fed = True
        frames += stream.decode(None)
        if frames:
            last = frames[-1]
            return Shape(last.width, last.height, last.format.name, int(last.rotation))
    return None


def changes(canonical: Path, begin: Fraction, end: Fraction) -> bool:
    """Tell whether the encoder of the picture changes in what is decoded for `[begin, end)`.

    Reads packets only. Of codecs that aren't understood it is assumed that it doesn't.
    """
    with opened(canonical) as container:
        before = None
        try:
            for time, packet, now in configured(container, container.streams.video[0], begin):
                if not packet.is_keyframe:
                    continue
                if time >= end:
                    break
                if before is not None and now != before:
                    return True
                before = now
        except NotUnderstood:
            return False
    return False
