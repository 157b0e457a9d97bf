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

from services.asr.media import ffmpeg
from services.asr.media.errors import MediaError, Truncated
from services.asr.media.probe import Media, probe
from services.asr.media.sound import sound_changes

COPIED_VIDEO = frozenset({"h264", "hevc", "av1", "mpeg4"})
COPIED_AUDIO = frozenset({"aac", "ac3", "eac3", "opus", "flac", "alac"})
ENCODE_VIDEO = ("-c:v", "libx264", "-preset", "veryfast", "-crf", "20", "-pix_fmt", "yuv420p")
ENCODE_AUDIO = ("-c:a", "aac", "-b:a", "128k")
# Container durations are rounded, and the last audio packet may outlast the picture.
_MISSING_FLOOR_MS = 1500


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
    again, so is sound whose encoder changes on the way, and so are all when the recording lets the copy fail.

    Raises:
        Truncated: the source claims content, but nothing of it is there.
        MediaError, MediaInfrastructure, Undecided: see `services.asr.media.errors`.
    """

    async def written(picture: bool, sound: bool) -> Canonical:
        await ffmpeg.run(
            _arguments(source, out, media, copied=(picture, sound)),
            timeout_seconds=timeout_seconds,
            duration_ms=media.duration_ms,
            on_progress=on_progress,
        )
        result = await _probe_result(out)
        return Canonical(out, result, _missing_ms(media, result), picture and sound)

    if media.video_codec not in COPIED_VIDEO | {""}:
        return await written(False, False)
    if media.heard.codec not in COPIED_AUDIO:
        return await written(True, False)
    looking = asyncio.create_task(asyncio.to_thread(sound_changes, source, media.audio_order))
    try:
        made = await written(True, True)
        return await written(True, False) if await looking else made
    except MediaError:
        return await written(False, False)
    finally:
        # it reads a file of the caller's
        await asyncio.gather(looking, return_exceptions=True)


def _arguments(source: Path, out: Path, media: Media, *, copied: tuple[bool, bool]) -> Sequence[str]:
    """Return ffmpeg's arguments; `copied`: whether picture and sound are, else they are encoded."""
    # "V" leaves cover art out; genpts fills in the times that a recorder left out.
    maps = [*(("-map", "0:V:0") if media.has_picture else ()), "-map", f"0:a:{media.audio_order}"]
    picture = ("-c:v", "copy") if copied[0] else ENCODE_VIDEO
    codecs = picture + (("-c:a", "copy") if copied[1] else ENCODE_AUDIO)
    return (
        *("-fflags", "+genpts+discardcorrupt"),
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
    missing = claimed.duration_ms - found.duration_ms
    return missing if missing > _MISSING_FLOOR_MS else 0
