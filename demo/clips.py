"""Look into the clips: do they play, and do they begin with the right picture?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
from frontrow.asr.v1 import clip_pb2

from cli.commands.materials import minutes
from demo.instance import Instance
from demo.recording import download
from demo.report import Report
from samples.frame_code import frame_number

_FRAMES_PER_SECOND = 25


@dataclass(frozen=True)
class Played:
    """What decoding a whole file gave."""

    first_frame: int
    frames: int
    sound_seconds: float


async def check_clips(
    instance: Instance, clips: Sequence[clip_pb2.Clip], folder: Path, report: Report
) -> None:
    """Download every clip, decode it whole, and compare its first frame with the recording's."""
    with report.timed("clips: downloaded and played"):
        for clip in clips:
            target = folder / f"{clip.position:02}.mp4"
            await download(instance, clip.id, target)
            _check_clip(clip, play(target), report)
            report.note(
                f"clip {clip.position + 1}",
                f"“{clip.title}” {minutes(clip.start_ms)} to {minutes(clip.end_ms)}",
                file=str(target),
            )
    report.check(
        "titles have 2 to 12 characters", [], [c.title for c in clips if not 2 <= len(c.title) <= 12]
    )
    report.check(
        "descriptions have at most 128 characters", [], [c.id for c in clips if len(c.description) > 128]
    )


def _check_clip(clip: clip_pb2.Clip, played: Played, report: Report) -> None:
    name = f"clip {clip.position + 1}"
    wanted = clip.start_ms * _FRAMES_PER_SECOND / 1000
    report.check_that(
        f"{name} begins with frame {wanted:.1f} of the recording",
        abs(played.first_frame - wanted) <= 1,
        played.first_frame,
    )
    length = (clip.end_ms - clip.start_ms) / 1000
    report.check_that(
        f"{name} plays for {length:.1f} s, picture and sound",
        abs(played.frames / _FRAMES_PER_SECOND - length) < 0.2 and abs(played.sound_seconds - length) < 0.3,
        played,
    )


def play(path: Path) -> Played:
    """Decode a whole file."""
    frames, sound_seconds, first_frame = 0, 0.0, -1
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            if frames == 0:
                first_frame = frame_number(frame.to_ndarray(format="rgb24").astype(np.uint8, copy=False))
            frames += 1
    with av.open(str(path)) as container:
        for sound in container.decode(audio=0):
            sound_seconds += sound.samples / sound.sample_rate
    return Played(first_frame, frames, sound_seconds)
