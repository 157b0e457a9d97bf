"""The timeline as OpenTimelineIO."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import opentimelineio as otio
from opentimelineio.opentime import RationalTime, TimeRange

from services.asr.slicing.drafts.timeline import Item, Timeline

MEDIA_FOLDER = "media"


def write_otio(timeline: Timeline) -> str:
    """Write OpenTimelineIO's JSON; captions are markers, which all of its readers keep."""
    made = timeline_of(timeline)
    for caption in timeline.captions:
        span = range_of(timeline, caption.start, caption.end - caption.start)
        marker = otio.schema.Marker(name=caption.text[:80], marked_range=span, color="CYAN")
        marker.comment = caption.text
        made.tracks.markers.append(marker)
    return str(otio.adapters.write_to_string(made, "otio_json", indent=2))


def timeline_of(timeline: Timeline) -> otio.schema.Timeline:
    """Return the clips, a track of picture and one of sound, each where there is any."""
    made = otio.schema.Timeline(name=timeline.name, global_start_time=time_of(timeline, 0))
    makers: list[tuple[str, str, Callable[[Item], bool]]] = [
        ("picture", otio.schema.TrackKind.Video, lambda item: bool(item.material.picture)),
        ("sound", otio.schema.TrackKind.Audio, lambda item: bool(item.material.sound)),
    ]
    for name, kind, has in makers:
        if not any(map(has, timeline.items)):
            continue
        track = otio.schema.Track(name=name, kind=kind)
        for item in timeline.items:
            whole = range_of(timeline, 0, item.frames)
            track.append(_clip(timeline, item) if has(item) else otio.schema.Gap(source_range=whole))
        made.tracks.append(track)
    return made


def _clip(timeline: Timeline, item: Item) -> otio.schema.Clip:
    material = item.material
    whole = range_of(timeline, 0, item.frames)
    reference = otio.schema.ExternalReference(
        # a relative URL: beside the timeline, wherever that is put
        target_url=quote(f"{MEDIA_FOLDER}/{material.file_name}"),
        available_range=whole,
    )
    reference.name = material.file_name
    clip = otio.schema.Clip(name=material.title, media_reference=reference, source_range=whole)
    clip.metadata["frontrow"] = {"clip_id": material.clip_id, "recording_start_ms": material.start_ms}
    return clip


def time_of(timeline: Timeline, frame: int) -> RationalTime:
    """Return when a frame begins."""
    return RationalTime(frame, float(timeline.rate))


def range_of(timeline: Timeline, start: int, frames: int) -> TimeRange:
    """Return a stretch of frames."""
    return TimeRange(time_of(timeline, start), time_of(timeline, frames))
