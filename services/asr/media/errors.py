"""What can be wrong with a recording, each fact with a reason of its own."""

from __future__ import annotations

from typing import ClassVar


class MediaError(Exception):
    """A recording can't be used; `reason` is stable, the message says what was found.

    Never retryable: the same bytes give the same answer.
    """

    reason: ClassVar[str] = "MEDIA_UNUSABLE"


class EmptyFile(MediaError):
    """The file has no bytes."""

    reason = "EMPTY_FILE"


class NotMedia(MediaError):
    """The bytes are no recording: text, a picture, a playlist, noise."""

    reason = "NOT_MEDIA"


class MoovMissing(MediaError):
    """An MP4 without its index: the recorder was stopped before it wrote one."""

    reason = "MOOV_MISSING"


class NoAudioTrack(MediaError):
    """The recording has a picture but no audio track at all."""

    reason = "NO_AUDIO_TRACK"


class AudioUndecodable(MediaError):
    """There is an audio track, but nothing here can decode it (unknown codec, encrypted)."""

    reason = "AUDIO_UNDECODABLE"


class Truncated(MediaError):
    """The container says there is content, yet none of it is in the file."""

    reason = "TRUNCATED"


class SpanOutside(MediaError):
    """A span to cut has no part inside the recording."""

    reason = "SPAN_OUTSIDE"


class FfmpegFailed(MediaError):
    """ffmpeg ended with an error that has no better name; the message carries its last lines."""

    reason = "FFMPEG_FAILED"


class MediaInfrastructure(Exception):
    """This machine can't do the work now, whatever the recording: no ffmpeg, disk full."""

    reason: str = "MEDIA_INFRASTRUCTURE"


class FfmpegMissing(MediaInfrastructure):
    """No ffmpeg that can encode H.264 was found."""

    reason = "FFMPEG_MISSING"


class DiskFull(MediaInfrastructure):
    """The scratch folder's disk is full; nothing half-written is kept."""

    reason = "DISK_FULL"


class SystemTrouble(MediaInfrastructure):
    """The system refused this machine's own program something: memory, descriptors, a disk that is ill.

    `reason` is the error's name in capitals, such as `EIO`.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Undecided(Exception):
    """A program ended of something that a hostile recording can bring about as well as this machine.

    Nobody can tell which, so a try is charged: else one such recording would be tried for ever.
    """

    reason: ClassVar[str]


class FfmpegTimeout(Undecided):
    """A program took longer than it was given, and was killed: a busy machine, or a hostile recording."""

    reason = "FFMPEG_TIMEOUT"


class FfmpegKilled(Undecided):
    """A program was ended by a signal: for want of memory as a rule, or broken by the recording's bytes."""

    reason = "FFMPEG_KILLED"


class OutOfMemory(Undecided):
    """The system had no memory for a program: little is left, or the recording asks for far too much."""

    reason = "ENOMEM"


class InputGone(Undecided):
    """A program didn't find a file: the disk was away for a moment, or the recording's bytes name another."""

    reason = "INPUT_GONE"
