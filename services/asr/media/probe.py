"""What is in a recording, and why it can't be used when it can't.

Every unusable kind of file gets its own reason before any engine starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import av
from av.audio.codeccontext import AudioCodecContext
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.stream import Disposition
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from services.asr.media import trouble
from services.asr.media.errors import (
    AudioUndecodable,
    EmptyFile,
    MediaError,
    MoovMissing,
    NoAudioTrack,
    NotMedia,
)
from services.asr.media.formats import LOOK_LONGER, OPEN_OPTIONS
from services.asr.media.packets import demuxed

# A recording that begins between two key frames has no picture to decode for this long.
_FIRST_PACKETS = 300
# ISO 639-2, or BCP 47 as far as files have it
_LANGUAGE = re.compile(r"(?=.{2,35}$)[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")
# Formats that don't say at their beginning what is in them: a stream is known when it begins.
_WITHOUT_HEADER = frozenset({"mpegts", "mpeg", "flv", "live_flv"})
_MP4_FIRST_BOXES = {b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"moof", b"styp"}


@dataclass(frozen=True)
class AudioTrack:
    """One audio track that can be decoded; `order` counts the file's audio tracks from 0.

    `language` is what the file says, a tag such as `zho` or `zh-CN`; '' when it doesn't say.
    """

    order: int
    codec: str
    sample_rate: int
    channels: int
    language: str
    default: bool


@dataclass(frozen=True)
class Media:
    """The facts of a recording.

    `duration_ms` is what the container claims, or what is there where it says nothing; `picture_end_ms` is
    where the picture ends (0: no picture). Width, height and `fps` are 0 without a picture. `audio_order` is
    the track that is transcribed: the one flagged as default, else the first that can be decoded. `late`: a
    stream begins so late that it is found only by who looks for it longer.
    """

    format: str
    duration_ms: int
    picture_end_ms: int
    width: int
    height: int
    fps: Fraction
    video_codec: str
    audio_tracks: tuple[AudioTrack, ...]
    audio_order: int
    late: bool = False

    @property
    def has_picture(self) -> bool:
        """Tell whether there is a moving picture (cover art is none)."""
        return self.width > 0

    @property
    def heard(self) -> AudioTrack:
        """The track that is transcribed."""
        return next(track for track in self.audio_tracks if track.order == self.audio_order)


async def probe(path: Path) -> Media:
    """Read the facts of the recording at `path`.

    Raises:
        MediaError: the subclass that names what is wrong with the file.
        MediaInfrastructure, Undecided: this machine, or nobody can tell.
    """
    return await asyncio.to_thread(probe_blocking, path)


def probe_blocking(path: Path) -> Media:
    """Do `probe` in the calling thread."""
    if path.stat().st_size == 0:
        raise EmptyFile("the file is empty")
    try:
        media = _probed(path, late=False)
    except (NoAudioTrack, AudioUndecodable):
        return _probed(path, late=True)
    if media.has_picture or media.format not in _WITHOUT_HEADER:
        return media
    longer = _probed(path, late=True)
    return longer if longer.has_picture else media


def _probed(path: Path, *, late: bool) -> Media:
    try:
        options = OPEN_OPTIONS | (LOOK_LONGER if late else {})
        with av.open(f"file:{path}", options=options, metadata_errors="replace") as container:
            return replace(_facts(container), late=late)
    except av.error.FFmpegError as error:
        said = error.strerror or "unreadable"  # its text names our path
        ours = trouble.of_error(error, [path], said=said)
        raise ours or _why_unreadable(path, said) from error


def _facts(container: InputContainer) -> Media:
    audio, undecodable = _audio_tracks(container.streams.audio)
    picture = next(filter(is_picture, container.streams.video), None)
    if not audio and undecodable:
        raise AudioUndecodable("the audio track's codec can't be decoded here")
    if not audio and picture is None:
        raise NotMedia("the file has neither sound nor a moving picture")
    if not audio:
        raise NoAudioTrack("the recording has a picture but no audio track")
    chosen = next((t for t in audio if t.default), audio[0])
    start = container.start_time or 0
    length = Fraction(container.duration or 0, av.time_base)
    width, height = shown_size(picture, container) if picture else (0, 0)
    length = length or _length(container) - Fraction(start, av.time_base)
    return Media(
        format=container.format.name,
        duration_ms=_rounded_ms(length),
        picture_end_ms=_picture_end_ms(picture, length, Fraction(start, av.time_base)) if picture else 0,
        width=width,
        height=height,
        fps=Fraction(picture.average_rate or picture.base_rate or 0) if picture else Fraction(0),
        video_codec=picture.codec_context.codec.canonical_name if picture else "",
        audio_tracks=tuple(audio),
        audio_order=chosen.order,
    )


def is_picture(stream: VideoStream) -> bool:
    """Tell whether a stream is a moving picture that can be decoded here; cover art is none."""
    context: VideoCodecContext | None = stream.codec_context
    if context is None or not context.width:
        return False
    return Disposition.attached_pic not in stream.disposition


def shown_size(picture: VideoStream, container: InputContainer) -> tuple[int, int]:
    """Return width and height as shown.

    A telephone that was held upright records a turned picture, a camcorder one of pixels that aren't square.
    """
    width, height = picture.codec_context.width, picture.codec_context.height
    width = round(width * (picture.sample_aspect_ratio or 1))
    # a picture that begins broken has the size its header says
    with contextlib.suppress(av.error.FFmpegError):
        for packet in itertools.islice(demuxed(container, picture), _FIRST_PACKETS):
            for frame in picture.decode(packet):
                return (height, width) if frame.rotation % 180 else (width, height)
    return width, height


def _audio_tracks(streams: Iterable[AudioStream]) -> tuple[list[AudioTrack], int]:
    """Return the tracks that can be decoded and the number of those that can't."""
    tracks: list[AudioTrack] = []
    undecodable = 0
    for order, stream in enumerate(streams):
        context = stream.codec_context
        if not isinstance(context, AudioCodecContext) or not context.sample_rate:
            undecodable += 1
            continue
        tracks.append(
            AudioTrack(
                order,
                context.codec.canonical_name,
                context.sample_rate,
                context.channels,
                _language(stream.metadata.get("language", "")),
                default=Disposition.default in stream.disposition,
            )
        )
    return tracks, undecodable


def _language(said: str) -> str:
    """Return a language tag as the file has it; '' for what is none, and for the one that says so itself."""
    return said if _LANGUAGE.fullmatch(said) and said.lower() != "und" else ""


def _length(container: InputContainer) -> Fraction:
    """Return when the last packet ends, in seconds: browsers write no length into what they record."""
    end = Fraction(0)
    # behind a broken place nothing counts
    with contextlib.suppress(av.error.FFmpegError):
        for packet in demuxed(container, *container.streams.video, *container.streams.audio):
            if packet.pts is not None:
                end = max(end, (packet.pts + (packet.duration or 0)) * packet.time_base)
    return end


def _picture_end_ms(stream: VideoStream, length: Fraction, start: Fraction) -> int:
    if stream.duration and stream.time_base:
        return _rounded_ms(((stream.start_time or 0) + stream.duration) * stream.time_base - start)
    return _rounded_ms(length)


def _rounded_ms(seconds: Fraction) -> int:
    return max(0, round(seconds * 1000))


def _why_unreadable(path: Path, said: str) -> MediaError:
    """Name the reason for a file that no demuxer opens."""
    boxes = _mp4_boxes(path)
    if boxes and b"moov" not in boxes:
        return MoovMissing(
            "the MP4 has no index (moov): the recorder was stopped before it finished the file, "
            "or the copy ends too early"
        )
    return NotMedia(f"the file is no audio or video recording ({said})")


def _mp4_boxes(path: Path) -> list[bytes]:
    """Return the types of the file's top-level MP4 boxes; empty when it isn't MP4 at all."""
    boxes: list[bytes] = []
    size = path.stat().st_size
    with path.open("rb") as file:
        offset = 0
        while offset + 8 <= size and len(boxes) < 10_000:
            file.seek(offset)
            head = file.read(16)
            length, kind = int.from_bytes(head[:4], "big"), head[4:8]
            if not boxes and kind not in _MP4_FIRST_BOXES:
                return []
            if length == 1:
                length = int.from_bytes(head[8:16], "big")
            boxes.append(kind)
            if length < 8:
                break
            offset += length
    return boxes
