"""Whether the encoder of a recording's sound changes on the way, as a live stream's may that comes back."""

from __future__ import annotations

from pathlib import Path

import av

from services.asr.media import trouble
from services.asr.media.packets import demuxed, new_header, opened

# So many packets in a row: one alone is damaged.
_PACKETS = 10


def sound_changes(path: Path, audio_order: int, *, late: bool = False) -> bool:
    """Tell whether sampling rate, channels or profile change, so that one header can't hold for the track.

    Reads packets only: all of them, or those before the file breaks. `audio_order` counts the audio tracks;
    `late`: see `probe.Media`.

    Raises:
        MediaInfrastructure, Undecided: this machine is at fault, or nobody can tell.
    """
    try:
        return _changes(path, audio_order, late=late)
    except av.error.FFmpegError as error:
        trouble.raise_ours(error, path)
        return False


def _changes(path: Path, audio_order: int, *, late: bool) -> bool:
    with opened(path, late=late) as container:
        stream = container.streams.audio[audio_order]
        codec, header = stream.codec_context.codec.canonical_name, stream.codec_context.extradata
        mark: bytes | None = None
        other: bytes | None = None
        seen = 0
        for packet in demuxed(container, stream):
            told = new_header(packet)
            if told is not None and told != header:
                return True
            found = _mark(codec, bytes(packet)[:4])
            mark = mark or found
            seen = 0 if found in {mark, None} else seen + 1 if found == other else 1
            other = found
            if seen == _PACKETS:
                return True
    return False


def _mark(codec: str, begin: bytes) -> bytes | None:
    """Return what the frame at a packet's begin says of its encoder; None: it says nothing."""
    if len(begin) < 4 or begin[0] != 0xFF:
        return None
    if codec == "aac" and begin[1] & 0xF6 == 0xF0:
        # profile, sampling rate and channels of an ADTS header
        return bytes([begin[2] & 0xFD, begin[3] & 0xC0])
    if codec in {"mp3", "mp2"} and begin[1] & 0xE0 == 0xE0:
        # version and layer, sampling rate, one channel or two
        return bytes([begin[1] & 0x1E, begin[2] & 0x0C, begin[3] & 0xC0 == 0xC0])
    return None
