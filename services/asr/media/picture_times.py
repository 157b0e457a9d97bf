"""Whether a picture's times outlive a copy: Matroska says when frames are shown, not when to decode them."""

from __future__ import annotations

from pathlib import Path

import av

from services.asr.media import trouble
from services.asr.media.packets import demuxed, opened
from services.asr.media.probe import is_picture


def misordered(path: Path) -> bool:
    """Tell whether a frame is shown before a packet ahead of it would be decoded, by the demuxer's guess.

    It guesses wrong where frames are far apart; a copy would show such frames too late. Reads packets only.

    Raises:
        MediaInfrastructure, Undecided: this machine is at fault, or nobody can tell.
    """
    try:
        return _misordered(path)
    except av.error.FFmpegError as error:
        trouble.raise_ours(error, path)
        return False


def _misordered(path: Path) -> bool:
    with opened(path) as container:
        latest: int | None = None
        for packet in demuxed(container, next(filter(is_picture, container.streams.video))):
            if packet.pts is None:
                continue
            if latest is not None and packet.pts < latest:
                return True
            if packet.dts is not None:
                latest = packet.dts if latest is None else max(latest, packet.dts)
    return False
