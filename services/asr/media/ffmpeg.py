"""Running ffmpeg: found once, killable, with progress and errors that say what happened.

Inputs may be hostile: only local files are opened (`file:` paths, a protocol white list) and only
container formats of recordings, so that a playlist can't make ffmpeg read other files.
"""

from __future__ import annotations

import asyncio
import functools
import shutil
import subprocess
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from libs.common import child
from services.asr.media import trouble
from services.asr.media.errors import FfmpegFailed, FfmpegMissing, FfmpegTimeout
from services.asr.media.formats import FORMATS, PROTOCOLS

Progress = Callable[[float], None]
"""Called with the share that is done, 0.0 to 1.0; it only rises."""

INPUT_GUARD = ("-protocol_whitelist", PROTOCOLS, "-format_whitelist", FORMATS)
_STDERR_TAIL = 1500
_FILE = "file:"


@functools.cache
def find() -> str:
    """Return the path of an ffmpeg that can encode H.264: the system's, else the bundled one.

    Raises:
        FfmpegMissing: neither is there, or neither can encode H.264.
    """
    for candidate in (shutil.which("ffmpeg"), _bundled()):
        if candidate and _encodes_h264(candidate):
            return candidate
    raise FfmpegMissing(
        "no ffmpeg with libx264 on this machine: install ffmpeg, or the Python package imageio-ffmpeg"
    )


def _bundled() -> str | None:
    try:
        import imageio_ffmpeg  # type: ignore[import-untyped] # it ships no types

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        return None


def _encodes_h264(path: str) -> bool:
    try:
        listed = subprocess.run(
            [path, "-hide_banner", "-encoders"], capture_output=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b" libx264 " in listed.stdout


def source(path: Path) -> tuple[str, ...]:
    """Return the arguments that open `path` as an input, whatever characters its name has."""
    return (*INPUT_GUARD, "-i", f"{_FILE}{path}")


def target(path: Path) -> str:
    """Return the output argument for `path`, whatever characters its name has."""
    return f"{_FILE}{path}"


def mp4(path: Path) -> tuple[str, ...]:
    """Return the arguments that end an MP4: index in front, nothing taken over of what its source says."""
    return ("-map_metadata", "-1", "-movflags", "+faststart", "-f", "mp4", target(path))


async def run(
    arguments: Sequence[str],
    *,
    timeout_seconds: float,
    duration_ms: int | None = None,
    on_progress: Progress | None = None,
) -> None:
    """Run ffmpeg with `arguments` and wait for it; it dies with us, on cancellation and on timeout.

    Args:
        duration_ms: what the output will last, the denominator of the progress; None reports only the end.

    Raises:
        FfmpegFailed: it ended with an error; the message is the end of what it said, without folders.
        DiskFull, SystemTrouble, FfmpegMissing: this machine, not the recording, is at fault.
        Undecided: either of them is: it took too long, was ended by a signal, or found no memory.
    """
    # looked for once, which takes a child process: not on the event loop
    program = await asyncio.to_thread(find)
    argv = [program, "-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-progress", "pipe:1"]
    watcher = _ProgressLines(duration_ms, on_progress)
    try:
        done = await child.run([*argv, *arguments], timeout_seconds=timeout_seconds, on_stdout_line=watcher)
    except child.ChildTimeout as error:
        raise FfmpegTimeout(f"ffmpeg was stopped after {timeout_seconds:.0f} s") from error
    if done.returncode != 0:
        inputs, paths = _files(arguments)
        ours = await asyncio.to_thread(trouble.of_program, done, inputs=inputs, paths=paths)
        if ours is not None:
            raise ours
        said = trouble.without_paths(done.stderr_text, paths).strip()[-_STDERR_TAIL:]
        raise FfmpegFailed(f"ffmpeg ended with code {done.returncode}: {said}")
    if on_progress is not None:
        on_progress(1.0)


def _files(arguments: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """Return the files that ffmpeg reads, and all that it was given."""
    named = [
        (before == "-i", Path(argument.removeprefix(_FILE)))
        for before, argument in pairwise(("", *arguments))
        if argument.startswith(_FILE)
    ]
    return [path for is_read, path in named if is_read], [path for _, path in named]


class _ProgressLines:
    """Turns the `key=value` lines of `-progress` into a share that only rises."""

    def __init__(self, duration_ms: int | None, on_progress: Progress | None) -> None:
        self._duration_us = (duration_ms or 0) * 1000
        self._on_progress = on_progress
        self._last = 0.0

    def __call__(self, line: str) -> None:
        key, _, value = line.strip().partition("=")
        if self._on_progress is None or self._duration_us <= 0 or key != "out_time_us":
            return
        try:
            # "N/A" until the first packet is written
            share = min(int(value) / self._duration_us, 0.999)
        except ValueError:
            return
        if share > self._last:
            self._last = share
            self._on_progress(share)
