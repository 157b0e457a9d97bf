"""Cutting without encoding what needn't be: only the frames outside whole groups are encoded again.

The copied packets keep their parameter sets, the encoded edges get sets under another id, and the clip's
header holds both, so that no player has to find new sets inside the stream.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av

from libs.common import child
from services.asr.media import ffmpeg
from services.asr.media.canonical import ENCODE_VIDEO
from services.asr.media.errors import FfmpegFailed, FfmpegTimeout
from services.asr.media.formats import OPEN_OPTIONS
from services.asr.media.h264 import Configuration, NotAvc, is_restart
from services.asr.media.seek import two_stage
from services.asr.media.splice import Job

# Below this there is nothing to gain over encoding all of it.
_SHORTEST_COPY = Fraction(3)
_ENCODED_SHARE = 0.8


class NotSpliced(Exception):
    """The span can't be cut this way; encode it."""


@dataclass(frozen=True)
class Plan:
    """Which part of a span is copied, in seconds, and the id that the encoded edges' parameter sets get."""

    copy_from: Fraction
    copy_to: Fraction
    free_id: int


def plan(canonical: Path, first: Fraction, end: Fraction) -> Plan | None:
    """Find the longest part of `[first, end)` between two restart points, or None when it isn't worth it.

    Reads packets only. None, too, for anything but 8-bit 4:2:0 H.264 in one configuration.
    """
    with av.open(f"file:{canonical}", options=OPEN_OPTIONS) as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        if context.name != "h264" or context.pix_fmt != "yuv420p":
            return None
        try:
            configuration = Configuration.parse(context.extradata or b"")
        except NotAvc:
            return None
        origin = Fraction(container.start_time or 0, av.time_base)
        container.seek(max(0, int((first + origin) * av.time_base)), backward=True)
        restarts: list[Fraction] = []
        for packet in container.demux(stream):
            if packet.pts is None or packet.time_base is None or not packet.is_keyframe:
                continue
            time = packet.pts * packet.time_base - origin
            if time > end:
                break
            if time >= first and is_restart(bytes(packet), configuration.length_size):
                restarts.append(time)
    if len(restarts) < 2 or restarts[-1] - restarts[0] < _SHORTEST_COPY:
        return None
    return Plan(restarts[0], restarts[-1], configuration.free_id())


async def cut(
    canonical: Path,
    out: Path,
    first: Fraction,
    end: Fraction,
    *,
    timeout_seconds: float,
    on_progress: ffmpeg.Progress | None = None,
) -> None:
    """Write `[first, end)` to `out`; `first` is when a frame is shown.

    Raises:
        NotSpliced: it can't be done, or the join failed.
        MediaError, MediaInfrastructure, FfmpegTimeout: ffmpeg failed.
    """
    found = await asyncio.to_thread(plan, canonical, first, end)
    if found is None:
        raise NotSpliced("too few restart points, or no H.264 of the usual kind")
    edges = {"head": (first, found.copy_from), "tail": (found.copy_to, end)}
    paths = {name: out.with_suffix(f".{name}.mp4") for name, (begin, to) in edges.items() if to > begin}
    job_path = out.with_suffix(".json")
    try:
        await _all(
            _encode(canonical, path, edges[name], found.free_id, timeout_seconds)
            for name, path in paths.items()
        )
        if on_progress is not None:
            on_progress(_ENCODED_SHARE)
        job = Job(
            canonical=str(canonical),
            **{name: str(paths.get(name, "")) for name in edges},
            out=str(out),
            first=str(first),
            copy_from=str(found.copy_from),
            copy_to=str(found.copy_to),
            end=str(end),
        )
        await asyncio.to_thread(job_path.write_text, job.dumps())
        await _join(job_path, timeout_seconds)
    finally:
        for path in (*paths.values(), job_path):
            path.unlink(missing_ok=True)
    if on_progress is not None:
        on_progress(1.0)


async def copy(
    canonical: Path,
    out: Path,
    first: Fraction,
    end: Fraction,
    *,
    timeout_seconds: float,
    on_progress: ffmpeg.Progress | None = None,
) -> None:
    """Write `[first, end)` to `out` without encoding; both are points that `fast.span` gave.

    Raises:
        FfmpegFailed: the join failed. FfmpegTimeout: it took too long.
    """
    job_path = out.with_suffix(".json")
    times = {"first": str(first), "copy_from": str(first), "copy_to": str(end), "end": str(end)}
    job = Job(canonical=str(canonical), head="", tail="", out=str(out), **times)
    try:
        await asyncio.to_thread(job_path.write_text, job.dumps())
        await _join(job_path, timeout_seconds)
    except NotSpliced as error:
        raise FfmpegFailed(str(error)) from error
    finally:
        job_path.unlink(missing_ok=True)
    if on_progress is not None:
        on_progress(1.0)


async def _all(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Await all at once; when one fails the others are stopped and its error is raised as it is."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _encode(
    canonical: Path, out: Path, span: tuple[Fraction, Fraction], free_id: int, timeout_seconds: float
) -> None:
    await ffmpeg.run(
        (
            # the canonical file has an exact index: no long run-up
            *two_stage(canonical, *span, run_up_seconds=1),
            *("-map", "0:v:0", "-an", *ENCODE_VIDEO, "-x264-params", f"sps-id={free_id}"),
            *("-f", "mp4", ffmpeg.target(out)),
        ),
        timeout_seconds=timeout_seconds,
    )


async def _join(job: Path, timeout_seconds: float) -> None:
    argv = [sys.executable, "-m", "services.asr.media.splice", str(job)]
    try:
        done = await child.run(argv, timeout_seconds=timeout_seconds)
    except child.ChildTimeout as error:
        raise FfmpegTimeout(f"joining a clip was stopped after {timeout_seconds:.0f} s") from error
    if done.returncode != 0:
        raise NotSpliced(f"the join failed: {done.stderr_text.strip()[-500:]}")
