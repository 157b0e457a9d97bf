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

import structlog
from av.container import InputContainer
from av.video.stream import VideoStream

from libs.common import child
from libs.common.together import together
from services.asr.media import ffmpeg, trouble
from services.asr.media.canonical import ENCODE_VIDEO
from services.asr.media.errors import FfmpegFailed, FfmpegTimeout
from services.asr.media.nal import NotUnderstood
from services.asr.media.packets import opened
from services.asr.media.parameter_sets import Configuration, configured
from services.asr.media.seek import EVERY_FRAME, two_stage
from services.asr.media.shape import Shape, shape_at
from services.asr.media.splice import Job

log = structlog.get_logger(__name__)

PYTHON = sys.executable
"""What joins are run by."""

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
    """Which part of a span is copied, in seconds, and how the edges around it are encoded.

    `header` is that of the copied packets, `shape` their picture's.
    """

    copy_from: Fraction
    copy_to: Fraction
    encoder: tuple[str, ...]
    header: bytes
    shape: Shape


def plan(canonical: Path, first: Fraction, end: Fraction) -> Plan | None:
    """Find the longest part of `[first, end)` between two restart points, or None when it isn't worth it.

    Decodes no more than a frame. None, too, for anything but 8-bit 4:2:0 H.264 or HEVC, and where the encoder
    changes inside the span.
    """
    with opened(canonical) as container:
        stream = container.streams.video[0]
        encoder, cost = _EDGES.get(stream.codec_context.name, ((), 0))
        if not encoder:
            return None
        try:
            configuration, restarts, hung_on = _restarts(container, stream, first, end)
        except NotUnderstood:
            return None
    ends = [time for time in restarts if time not in hung_on]
    if not ends or not _worth_it(first, restarts[0], ends[-1], end, cost):
        return None
    shape = shape_at(canonical, restarts[0])
    if shape is None or shape.pixels != "yuv420p":
        return None
    options = (*encoder, *configuration.edge_options())
    return Plan(restarts[0], ends[-1], options, configuration.record(), shape)


def _restarts(
    container: InputContainer, stream: VideoStream, first: Fraction, end: Fraction
) -> tuple[Configuration, list[Fraction], set[Fraction]]:
    """Return what a span's packets are decoded by, its restart points, and those where no copy can end.

    Raises:
        NotUnderstood: it isn't one configuration of a kind that is known.
    """
    found: Configuration | None = None
    restarts: list[Fraction] = []
    hung_on: set[Fraction] = set()
    for time, packet, configuration in configured(container, stream, first):
        if packet.is_keyframe and time > end:
            break
        if packet.is_keyframe and time <= first:
            found = configuration
        if found is not None and configuration != found:
            raise NotUnderstood("the encoder changes on the way")
        found = configuration
        if packet.is_keyframe and time >= first and configuration.is_restart(bytes(packet)):
            restarts.append(time)
        elif restarts and time < restarts[-1]:
            # frames shown before it hang on it
            hung_on.add(restarts[-1])
    if found is None:
        raise NotUnderstood("there is no picture")
    return found, restarts, hung_on


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
        MediaInfrastructure, Undecided: this machine is at fault, or nobody can tell.
    """
    found = await asyncio.to_thread(plan, canonical, first, end)
    if found is None:
        raise NotSpliced("too few restart points, or no H.264 of the usual kind")
    edges = {"head": (first, found.copy_from), "tail": (found.copy_to, end)}
    paths = {name: out.with_suffix(f".{name}.mp4") for name, (begin, to) in edges.items() if to > begin}
    try:
        async with together() as group:
            for name, path in paths.items():
                group.create_task(_encode(canonical, path, edges[name], found, timeout_seconds))
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
            header=found.header.hex(),
            size=(found.shape.width, found.shape.height),
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
        FfmpegFailed: the join failed.
        MediaInfrastructure, Undecided: this machine is at fault, or nobody can tell.
    """
    header, size = await asyncio.to_thread(_begun_with, canonical, first)
    times = {"first": str(first), "copy_from": str(first), "copy_to": str(end), "end": str(end)}
    whole = {"canonical": str(canonical), "head": "", "tail": "", "out": str(out)}
    job = Job(**whole, **times, header=header.hex(), size=size)
    try:
        await _join(job, timeout_seconds, on_progress)
    except NotSpliced as error:
        raise FfmpegFailed(str(error)) from error


def _begun_with(canonical: Path, first: Fraction) -> tuple[bytes, tuple[int, int]]:
    """Return header and size of a track as it is at a point; of codecs that aren't spliced, the track's."""
    with opened(canonical) as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        header, size = context.extradata or b"", (context.width, context.height)
        try:
            for time, packet, configuration in configured(container, stream, first):
                if packet.is_keyframe and time >= first:
                    header = configuration.record()
                    break
        except NotUnderstood:
            return header, size
    shape = shape_at(canonical, first)
    return header, (shape.width, shape.height) if shape is not None else size


async def _encode(
    canonical: Path,
    out: Path,
    span: tuple[Fraction, Fraction],
    found: Plan,
    timeout_seconds: float,
) -> None:
    shape = found.shape
    try:
        await ffmpeg.run(
            (
                # the canonical file has an exact index: no long run-up; turned by players, as the copy is
                *two_stage(canonical, *span, run_up_seconds=1, options=("-noautorotate",)),
                # the run-up may be another encoder's, whose size would stay
                *("-map", "0:v:0", "-an", "-vf", f"scale={shape.width}:{shape.height}", *EVERY_FRAME),
                *(*found.encoder, "-f", "mp4", ffmpeg.target(out)),
            ),
            timeout_seconds=timeout_seconds,
        )
    except FfmpegFailed as error:
        # not every ffmpeg has an encoder of HEVC
        raise NotSpliced(str(error)) from error


async def _join(job: Job, timeout_seconds: float, on_progress: ffmpeg.Progress | None) -> None:
    argv = [PYTHON, "-m", "services.asr.media.splice"]
    try:
        done = await child.run(argv, timeout_seconds=timeout_seconds, stdin=job.dumps().encode())
    except child.ChildTimeout as error:
        raise FfmpegTimeout(f"joining a clip was stopped after {timeout_seconds:.0f} s") from error
    if done.returncode != 0:
        inputs = [Path(name) for name in (job.canonical, job.head, job.tail) if name]
        paths = [*inputs, Path(job.out)]
        ours = await asyncio.to_thread(trouble.of_program, done, inputs=inputs, paths=paths)
        if ours is not None:
            raise ours
        log.warning("media.join_failed", code=done.returncode, said=done.stderr_text[-2000:])
        # of a trace only what is the error's own
        last = trouble.without_paths(done.stderr_text, paths).strip().rpartition("\n")[2]
        raise NotSpliced(f"the join failed: {last[-500:]}")
    if on_progress is not None:
        on_progress(1.0)
