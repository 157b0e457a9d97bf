"""Cutting without encoding what needn't be: only the frames outside whole groups are encoded again.

The copied packets keep their parameter sets, the encoded edges get sets under another id, and the clip's
header holds both, so that no player has to find new sets inside the stream.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from libs.common import child
from libs.common.together import together
from services.asr.media import ffmpeg, parameter_sets
from services.asr.media.canonical import ENCODE_VIDEO
from services.asr.media.errors import FfmpegFailed, FfmpegTimeout
from services.asr.media.nal import NotUnderstood
from services.asr.media.packets import opened, timed
from services.asr.media.seek import two_stage
from services.asr.media.splice import Job

# Below this there is nothing to gain over encoding all of it.
_SHORTEST_COPY = Fraction(3)
_ENCODED_SHARE = 0.8
# Its sets in the header alone, where they are given other numbers; no wavefronts, whose places count bytes.
_PLAIN = ("-tag:v", "hvc1", "-x265-params", "log-level=error:info=0:wpp=0:open-gop=0")
# What encodes the edges of each codec, and how many times longer that takes than H.264 for the whole.
_EDGES: dict[str, tuple[tuple[str, ...], int]] = {
    "h264": (ENCODE_VIDEO, 1),
    "hevc": (
        ("-c:v", "libx265", "-preset", "superfast", "-crf", "20", "-pix_fmt", "yuv420p", *_PLAIN),
        6,
    ),
}


class NotSpliced(Exception):
    """The span can't be cut this way; encode it."""


@dataclass(frozen=True)
class Plan:
    """Which part of a span is copied, in seconds, and how the edges around it are encoded."""

    copy_from: Fraction
    copy_to: Fraction
    encoder: tuple[str, ...]


def plan(canonical: Path, first: Fraction, end: Fraction) -> Plan | None:
    """Find the longest part of `[first, end)` between two restart points, or None when it isn't worth it.

    Reads packets only. None, too, for anything but 8-bit 4:2:0 H.264 or HEVC in one configuration.
    """
    with opened(canonical) as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        encoder, cost = _EDGES.get(context.name, ((), 0))
        if not encoder or context.pix_fmt != "yuv420p":
            return None
        try:
            configuration = parameter_sets.read(context.name, context.extradata)
        except NotUnderstood:
            return None
        restarts: list[Fraction] = []
        hung_on: set[Fraction] = set()
        for time, packet in timed(container, stream, first):
            if packet.is_keyframe and time > end:
                break
            if packet.is_keyframe and time >= first and configuration.is_restart(bytes(packet)):
                restarts.append(time)
            elif restarts and time < restarts[-1]:
                # frames shown before it hang on it: no copy can end there
                hung_on.add(restarts[-1])
    ends = [time for time in restarts if time not in hung_on]
    if not ends or not _worth_it(first, restarts[0], ends[-1], end, cost):
        return None
    return Plan(restarts[0], ends[-1], (*encoder, *configuration.edge_options()))


def _worth_it(first: Fraction, copy_from: Fraction, copy_to: Fraction, end: Fraction, cost: int) -> bool:
    edges = copy_from - first + end - copy_to
    return copy_to - copy_from >= max(_SHORTEST_COPY, edges * (cost - 1))


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
        NotSpliced: it can't be done, or an edge or the join failed.
        MediaInfrastructure, FfmpegTimeout: this machine is at fault, or nobody can tell.
    """
    found = await asyncio.to_thread(plan, canonical, first, end)
    if found is None:
        raise NotSpliced("too few restart points, or no H.264 of the usual kind")
    edges = {"head": (first, found.copy_from), "tail": (found.copy_to, end)}
    paths = {name: out.with_suffix(f".{name}.mp4") for name, (begin, to) in edges.items() if to > begin}
    try:
        async with together() as group:
            for name, path in paths.items():
                group.create_task(_encode(canonical, path, edges[name], found.encoder, timeout_seconds))
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
        await _join(job, timeout_seconds, on_progress)
    finally:
        for path in paths.values():
            path.unlink(missing_ok=True)


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
    times = {"first": str(first), "copy_from": str(first), "copy_to": str(end), "end": str(end)}
    job = Job(canonical=str(canonical), head="", tail="", out=str(out), **times)
    try:
        await _join(job, timeout_seconds, on_progress)
    except NotSpliced as error:
        raise FfmpegFailed(str(error)) from error


async def _encode(
    canonical: Path,
    out: Path,
    span: tuple[Fraction, Fraction],
    encoder: tuple[str, ...],
    timeout_seconds: float,
) -> None:
    try:
        await ffmpeg.run(
            (
                # the canonical file has an exact index: no long run-up
                *two_stage(canonical, *span, run_up_seconds=1),
                *("-map", "0:v:0", "-an", *encoder, "-f", "mp4", ffmpeg.target(out)),
            ),
            timeout_seconds=timeout_seconds,
        )
    except FfmpegFailed as error:
        # not every ffmpeg has an encoder of HEVC
        raise NotSpliced(str(error)) from error


async def _join(job: Job, timeout_seconds: float, on_progress: ffmpeg.Progress | None) -> None:
    argv = [sys.executable, "-m", "services.asr.media.splice"]
    try:
        done = await child.run(argv, timeout_seconds=timeout_seconds, stdin=job.dumps().encode())
    except child.ChildTimeout as error:
        raise FfmpegTimeout(f"joining a clip was stopped after {timeout_seconds:.0f} s") from error
    if done.returncode != 0:
        raise NotSpliced(f"the join failed: {done.stderr_text.strip()[-500:]}")
    if on_progress is not None:
        on_progress(1.0)
