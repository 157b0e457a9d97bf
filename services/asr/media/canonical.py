"""One canonical MP4 per recording, with a right clock.

Recordings lie about time: transport streams start anywhere, audio begins late, FLV has holes. Everything
later (audio for the engine, cuts, thumbnails) reads the canonical file only, so all of it has one clock
that begins at zero with the recording's first packet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from services.asr.media import ffmpeg, flv_clock
from services.asr.media.errors import MediaError, Truncated
from services.asr.media.formats import LOOK_LONGER, TRANSPORT_STREAM
from services.asr.media.picture_times import misordered
from services.asr.media.probe import Media, probe
from services.asr.media.seek import EVERY_FRAME
from services.asr.media.sound import sound_changes

COPIED_VIDEO = frozenset({"h264", "hevc", "av1", "vp9", "mpeg4"})
# A clip has its recording's sound, and editing programs look for no other inside an MP4.
COPIED_AUDIO = frozenset({"aac"})
# The pixels of 4:2:0 come in fours; a screen may be of any size.
EVEN_SIZE = "crop=trunc(iw/2)*2:trunc(ih/2)*2"
ENCODE_VIDEO = ("-c:v", "libx264", "-preset", "veryfast", "-crf", "20", "-pix_fmt", "yuv420p")
ENCODE_AUDIO = ("-c:a", "aac", "-b:a", "128k")
# Container durations are rounded, and the last audio packet may outlast the picture.
_MISSING_FLOOR_MS = 1500
# How many times longer than the recording encoding it may take.
_SLOWEST_FACTOR = 2.0
_FLV = frozenset({"flv", "live_flv"})
# Formats in which a recorder says how long a recording is; of others a demuxer guesses by what is there.
_SAYING_LENGTH = frozenset(
    {"mov", "matroska", "flv", "avi", "asf", "wav", "w64", "aiff", "caf", "flac", "mxf"}
)


@dataclass(frozen=True)
class Canonical:
    """The canonical file and its facts.

    `missing_ms` is how much shorter it is than the source claimed (0: nothing is missing); such a
    recording is usable in part. `copied` tells whether no stream had to be encoded again.
    """

    path: Path
    media: Media
    missing_ms: int
    copied: bool


async def make(
    source: Path,
    out: Path,
    media: Media,
    *,
    timeout_seconds: float = 3600.0,
    on_progress: ffmpeg.Progress | None = None,
) -> Canonical:
    """Write the canonical file of `source` to `out` (a path that ends in .mp4).

    Streams are copied where MP4 can hold them, which takes a second per ten minutes; others are encoded
    again, so is what would be wrong in a copy: sound whose encoder changes on the way, pictures whose times
    can't be kept. So are all when the recording lets the copy fail.
    A clock that jumps is mended first. `timeout_seconds` becomes longer with the recording.

    Raises:
        Truncated: the source claims content, but nothing of it is there.
        MediaError, MediaInfrastructure, Undecided: see `services.asr.media.errors`.
    """
    if media.format in _FLV and await asyncio.to_thread(flv_clock.jumps, source):
        mended = out.with_suffix(".mended.flv")
        try:
            await flv_clock.mend(source, mended, timeout_seconds=timeout_seconds)
            return await _made(
                mended, out, await probe(mended), timeout_seconds=timeout_seconds, on_progress=on_progress
            )
        finally:
            mended.unlink(missing_ok=True)
    return await _made(source, out, media, timeout_seconds=timeout_seconds, on_progress=on_progress)


async def _made(
    source: Path, out: Path, media: Media, *, timeout_seconds: float, on_progress: ffmpeg.Progress | None
) -> Canonical:
    """Do `make` with a recording whose clock doesn't jump."""

    async def written(picture: bool, sound: bool) -> Canonical:
        await ffmpeg.run(
            _arguments(source, out, media, copied=(picture, sound)),
            timeout_seconds=max(timeout_seconds, media.duration_ms / 1000 * _SLOWEST_FACTOR),
            duration_ms=media.duration_ms,
            on_progress=on_progress,
        )
        result = await _probe_result(out)
        return Canonical(out, result, _missing_ms(media, result), picture and sound)

    if media.video_codec not in COPIED_VIDEO | {""}:
        return await written(False, False)
    sound = media.heard.codec in COPIED_AUDIO
    looking = asyncio.create_task(asyncio.to_thread(_right_in_a_copy, source, media, sound=sound))
    try:
        made = await written(True, sound)
        copied = await looking
        return made if copied == (True, sound) else await written(*copied)
    except MediaError:
        return await written(False, False)
    finally:
        # it reads a file of the caller's
        await asyncio.gather(looking, return_exceptions=True)


def _right_in_a_copy(source: Path, media: Media, *, sound: bool) -> tuple[bool, bool]:
    """Tell whether picture and sound, each, are right in a copy; `sound`: that is to be copied.

    Reads packets only.
    """
    ordered = not media.has_picture or not media.format.startswith("matroska") or not misordered(source)
    return ordered, sound and not sound_changes(source, media.audio_order, late=media.late)


def _arguments(source: Path, out: Path, media: Media, *, copied: tuple[bool, bool]) -> Sequence[str]:
    """Return ffmpeg's arguments; `copied`: whether picture and sound are, else they are encoded."""
    # "V" leaves cover art out; genpts fills in the times that a recorder left out.
    maps = [*(("-map", "0:V:0") if media.has_picture else ()), "-map", f"0:a:{media.audio_order}"]
    picture = ("-c:v", "copy") if copied[0] else ("-vf", EVEN_SIZE, *EVERY_FRAME, *ENCODE_VIDEO)
    codecs = picture + (("-c:a", "copy") if copied[1] else ENCODE_AUDIO)
    options = (TRANSPORT_STREAM if media.format == "mpegts" else {}) | (LOOK_LONGER if media.late else {})
    return (
        *("-fflags", "+genpts+discardcorrupt", *(f for n, v in options.items() for f in (f"-{n}", v))),
        *ffmpeg.source(source),
        *maps,
        *codecs,
        *("-dn", "-sn", *ffmpeg.mp4(out)),
    )


async def _probe_result(out: Path) -> Media:
    """Probe what was written; a file without any packet means that the source had none.

    Raises:
        Truncated: nothing but headers could be read from the source.
    """
    try:
        result = await probe(out)
    except MediaError as error:
        raise Truncated("the recording ends before its first picture and sound") from error
    if result.duration_ms == 0:
        raise Truncated("the recording ends before its first picture and sound")
    return result


def _missing_ms(claimed: Media, found: Media) -> int:
    if claimed.format.partition(",")[0] not in _SAYING_LENGTH:
        return 0
    missing = claimed.duration_ms - found.duration_ms
    return missing if missing > _MISSING_FLOOR_MS else 0
