"""The timeline as OpenTimelineIO and, by its adapter, as Final Cut Pro 7 XML."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import opentimelineio as otio
from opentimelineio.opentime import RationalTime, TimeRange

from services.asr.slicing.drafts.timeline import Item, Timeline

MEDIA_FOLDER = "media"
_FCP7 = "fcp_xml"
# A text generator as Final Cut Pro 7 has it; other applications read it as a title.
_TEXT = {"effecttype": "generator", "effectcategory": "Text", "mediatype": "video"}


def write_otio(timeline: Timeline) -> str:
    """Write OpenTimelineIO's JSON; captions are markers, which all of its readers keep."""
    made = _timeline(timeline)
    for caption in timeline.captions:
        span = _range(timeline, caption.start, caption.end - caption.start)
        marker = otio.schema.Marker(name=caption.text[:80], marked_range=span, color="CYAN")
        marker.comment = caption.text
        made.tracks.markers.append(marker)
    return str(otio.adapters.write_to_string(made, "otio_json", indent=2))


def write_fcp7(timeline: Timeline) -> str:
    """Write Final Cut Pro 7 XML; captions are text generators on a track of their own."""
    made = _timeline(timeline)
    if timeline.width:
        picture = {"format": {"samplecharacteristics": _picture(timeline)}}
        made.metadata[_FCP7] = {"media": {"video": picture}}
    captions = otio.schema.Track(name="captions", kind=otio.schema.TrackKind.Video)
    at = 0
    for caption in timeline.captions:
        if caption.start > at:
            captions.append(otio.schema.Gap(source_range=_range(timeline, 0, caption.start - at)))
        captions.append(_title(timeline, caption.end - caption.start, caption.text))
        at = caption.end
    if timeline.captions:
        made.tracks.insert(_picture_tracks(made), captions)
    with warnings.catch_warnings():
        # the adapter asks elements for their truth, which newer Pythons complain about
        warnings.simplefilter("ignore")
        return str(otio.adapters.write_to_string(made, "fcp_xml"))


def _timeline(timeline: Timeline) -> otio.schema.Timeline:
    made = otio.schema.Timeline(name=timeline.name, global_start_time=_time(timeline, 0))
    makers: list[tuple[str, str, Callable[[Item], bool]]] = [
        ("picture", otio.schema.TrackKind.Video, lambda item: bool(item.material.picture)),
        ("sound", otio.schema.TrackKind.Audio, lambda item: bool(item.material.sound)),
    ]
    for name, kind, has in makers:
        if not any(map(has, timeline.items)):
            continue
        track = otio.schema.Track(name=name, kind=kind)
        for item in timeline.items:
            whole = _range(timeline, 0, item.frames)
            track.append(_clip(timeline, item) if has(item) else otio.schema.Gap(source_range=whole))
        made.tracks.append(track)
    return made


def _clip(timeline: Timeline, item: Item) -> otio.schema.Clip:
    material = item.material
    whole = _range(timeline, 0, item.frames)
    reference = otio.schema.ExternalReference(
        # a relative URL: beside the timeline, wherever that is put
        target_url=quote(f"{MEDIA_FOLDER}/{material.file_name}"),
        available_range=whole,
    )
    reference.name = material.file_name
    clip = otio.schema.Clip(name=material.title, media_reference=reference, source_range=whole)
    clip.metadata["frontrow"] = {"clip_id": material.clip_id, "recording_start_ms": material.start_ms}
    return clip


def _title(timeline: Timeline, frames: int, text: str) -> otio.schema.Clip:
    span = _range(timeline, 0, frames)
    parameter = {"parameterid": "str", "name": "Text", "value": text}
    reference = otio.schema.GeneratorReference(
        name="Text",
        generator_kind="Text",
        available_range=span,
        metadata={_FCP7: {**_TEXT, "parameter": parameter}},
    )
    return otio.schema.Clip(name=text[:80], media_reference=reference, source_range=span)


def _picture(timeline: Timeline) -> dict[str, Any]:
    return {
        "width": str(timeline.width),
        "height": str(timeline.height),
        "pixelaspectratio": "square",
        "fielddominance": "none",
    }


def _picture_tracks(made: otio.schema.Timeline) -> int:
    """Return the number of tracks that stand below the captions."""
    return sum(track.kind == otio.schema.TrackKind.Video for track in made.tracks)


def _time(timeline: Timeline, frame: int) -> RationalTime:
    return RationalTime(frame, float(timeline.rate))


def _range(timeline: Timeline, start: int, frames: int) -> TimeRange:
    return TimeRange(_time(timeline, start), _time(timeline, frames))
