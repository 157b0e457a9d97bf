"""Checks of cuts of recordings whose encoder changes: every frame once, at its time, in one size."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import av

from samples.frame_code import NoFrameCode, Picture, frame_number
from services.asr.media import canonical, cut
from services.asr.media.canonical import Canonical
from services.asr.media.probe import probe
from tests.integration.media.changing import Stretch, frame_schedule, record_changes
from tests.integration.media.recordings import frame_times, remake


@dataclass(frozen=True)
class Changing:
    """A canonical recording, its frames by number with their times, and when each change is."""

    made: Canonical
    times: dict[int, float]
    changes: list[float]

    def shown_at(self, at_ms: int) -> int:
        return max(number for number, time in self.times.items() if time <= (at_ms + 0.5) / 1000)


async def changing(folder: Path, suffix: str, stretches: list[Stretch]) -> Changing:
    """Record the stretches, and check that the canonical file has them at their times."""
    live = record_changes(folder / ("live.flv" if suffix == ".flv" else "live.ts"), stretches)
    if suffix not in {".flv", ".ts"}:
        live = remake(live, folder / f"copied{suffix}", "-c", "copy")
    made = await canonical.make(live, folder / "canonical.mp4", await probe(live))
    assert made.copied
    found, schedule = frame_times(made.path), frame_schedule(stretches)
    begins = list(itertools.accumulate((stretch.frames for stretch in stretches), initial=0))
    missing = set(range(len(schedule))) - {number for number, _ in found}
    # where a transport stream breaks off, a demuxer can't know whether its last packet was whole
    assert all(any(0 < begin - number <= 3 for begin in begins[1:-1]) for number in missing), missing
    assert len(missing) <= (0 if suffix == ".flv" else len(stretches) - 1)
    origin = found[0][1]
    assert all(abs(time - origin - schedule[number]) < 0.002 for number, time in found)
    return Changing(made, dict(found), [origin + float(schedule[begin]) for begin in begins[1:-1]])


async def check_cut(recording: Changing, out: Path, span: tuple[int, int]) -> None:
    """Cut; the clip has the recording's frames from the one on screen at its begin, none twice, one size."""
    made = recording.made
    done = await cut.cut(made.path, out, *span, media=made.media)
    shown, sizes = [], set()
    with av.open(str(out)) as container:
        header = container.streams.video[0].codec_context
        stored = header.width, header.height
        for frame in container.decode(video=0):
            shown.append((number_in(frame.to_ndarray(format="gray")), float(frame.time or 0)))
            sizes.add((frame.width, frame.height))
    assert sizes == {stored}, span
    first, last = recording.shown_at(span[0]), recording.shown_at(min(span[1], done.end_ms) - 1)
    kept = [number for number in recording.times if first <= number <= last]
    numbers = [number for number, _ in shown]
    if numbers[-1] == kept[-1] + 1 and abs(recording.times[numbers[-1]] * 1000 - done.end_ms) < 1:
        kept.append(numbers[-1])  # it appears in the very millisecond of the end
    assert numbers == kept, span
    # a frame that was on screen for long is shown anew at the begin
    due = [max(0.0, recording.times[number] - done.start_ms / 1000) for number, _ in shown]
    assert all(abs(time - then) < 0.002 for (_, time), then in zip(shown, due, strict=True)), span


def number_in(picture: Picture) -> int:
    """Read a frame's number, also where the picture was fitted into a frame of the other shape."""
    try:
        return frame_number(picture)
    except NoFrameCode:
        height, width = picture.shape
        high, wide = min(height, round(width * width / height)), min(width, round(height * height / width))
        top, left = (height - high) // 2, (width - wide) // 2
        return frame_number(picture[top : top + high, left : left + wide])
