"""The timeline as Final Cut Pro 7 XML, which Premiere and Resolve read, by OpenTimelineIO's adapter."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import opentimelineio as otio

from services.asr.slicing.drafts.otio_file import range_of, timeline_of
from services.asr.slicing.drafts.timeline import Caption, Item, Timeline

_FCP7 = "fcp_xml"
_OURS = "frontrow"
# A text generator as Final Cut Pro 7 has it; other applications read it as a title.
_TEXT = {"effecttype": "generator", "effectcategory": "Text", "mediatype": "video"}
_SOUND = {"samplecharacteristics": {"depth": "16", "samplerate": "48000"}}
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE xmeml>\n'


def write_fcp7(timeline: Timeline) -> str:
    """Write Final Cut Pro 7 XML; captions are text generators on a track of their own.

    In this format a track of sound is one channel: a clip lies on as many as it has, each linked with its
    picture.
    """
    made = timeline_of(timeline)
    made.metadata[_FCP7] = {"media": _formats(timeline)}
    pictures = [track for track in made.tracks if track.kind == otio.schema.TrackKind.Video]
    sounds = [track for track in made.tracks if track.kind == otio.schema.TrackKind.Audio]
    channels = [channel for sound in sounds for channel in _channels(timeline, sound)]
    captions = [_captions(timeline)] if timeline.captions else []
    made.tracks.clear()
    made.tracks.extend([*pictures, *captions, *channels])
    for track in made.tracks:
        _describe_files(timeline, track)
    with warnings.catch_warnings():
        # the adapter asks elements for their truth, which newer Pythons complain about
        warnings.simplefilter("ignore")
        written = str(otio.adapters.write_to_string(made, _FCP7))
    root = ElementTree.fromstring(written)  # noqa: S314  (written a line above)
    _link(root, timeline)
    ElementTree.indent(root)
    return f"{_HEAD}{ElementTree.tostring(root, encoding='unicode')}\n"


def _formats(timeline: Timeline) -> dict[str, Any]:
    sound = {"numOutputChannels": str(_most_channels(timeline)), "format": _SOUND}
    if not timeline.width:
        return {"audio": sound}
    return {"video": {"format": _picture(timeline.width, timeline.height)}, "audio": sound}


def _picture(width: int, height: int) -> dict[str, Any]:
    return {
        "samplecharacteristics": {
            "width": str(width),
            "height": str(height),
            "pixelaspectratio": "square",
            "fielddominance": "none",
        }
    }


def _most_channels(timeline: Timeline) -> int:
    return max((item.material.channels for item in timeline.items if item.material.sound), default=0)


def _channels(timeline: Timeline, sound: otio.schema.Track) -> Iterator[otio.schema.Track]:
    """Yield a track for each channel, with the clips that have it; those of a stereo pair say so."""
    count = _most_channels(timeline)
    for number in range(1, count + 1):
        track = copy.deepcopy(sound)
        track.name = f"{sound.name} {number}"
        pair = {
            "@premiereTrackType": "Stereo",
            "@currentExplodedTrackIndex": str(number - 1),
            "@totalExplodedTrackCount": "2",
        }
        track.metadata[_FCP7] = {**(pair if count == 2 else {}), "outputchannelindex": str(number)}
        for place, item in enumerate(timeline.items):
            if item.material.channels < number:
                track[place] = otio.schema.Gap(source_range=range_of(timeline, 0, item.frames))
            elif item.material.sound:
                # what differs in nothing is written once, and else neither at its time nor on its track
                source = {"mediatype": "audio", "trackindex": str(number)}
                track[place].metadata[_FCP7] = {"sourcetrack": source}
        yield track


def _describe_files(timeline: Timeline, track: otio.schema.Track) -> None:
    """Say of each file what is in it, else a program must have found it before it knows."""
    for clip, item in zip(track, timeline.items, strict=False):
        reference = clip.media_reference if isinstance(clip, otio.schema.Clip) else None
        if not isinstance(reference, otio.schema.ExternalReference):
            continue
        material, media = item.material, dict[str, Any]()
        if material.picture:
            media["video"] = _picture(material.width, material.height)
        if material.sound:
            media["audio"] = {**_SOUND, "channelcount": str(material.channels)}
        reference.metadata[_FCP7] = {"media": media}


def _captions(timeline: Timeline) -> otio.schema.Track:
    track = otio.schema.Track(name="captions", kind=otio.schema.TrackKind.Video)
    at = 0
    for number, caption in enumerate(timeline.captions):
        if caption.start > at:
            track.append(otio.schema.Gap(source_range=range_of(timeline, 0, caption.start - at)))
        track.append(_title(timeline, caption, number))
        at = caption.end
    return track


def _title(timeline: Timeline, caption: Caption, number: int) -> otio.schema.Clip:
    span = range_of(timeline, 0, caption.end - caption.start)
    parameter = {"parameterid": "str", "name": "Text", "value": caption.text}
    reference = otio.schema.GeneratorReference(
        name="Text",
        generator_kind="Text",
        available_range=span,
        metadata={_FCP7: {**_TEXT, "parameter": parameter}},
    )
    title = otio.schema.Clip(name=caption.text[:80], media_reference=reference, source_range=span)
    # see `_channels`: people say the same words for the same time again and again
    title.metadata[_OURS] = {"caption": number}
    return title


def _link(root: ElementTree.Element, timeline: Timeline) -> None:
    """Link the picture of each clip with its sound, so that they are moved and cut together."""
    media = root.find(".//sequence/media")
    if media is None:
        return
    tracks = [
        (kind, number, iter(track.findall("clipitem")))
        for kind in ("video", "audio")
        for number, track in enumerate(media.findall(f"{kind}/track"), 1)
        if track.find("clipitem") is not None
    ]
    places = {(kind, number): 0 for kind, number, _ in tracks}
    for item in timeline.items:
        mates: list[tuple[ElementTree.Element, ElementTree.Element]] = []
        for kind, number, clips in tracks:
            if not _lies_on(item, kind, number):
                continue
            places[kind, number] += 1
            clip = next(clips)
            mates.append((clip, _link_to(clip, kind, number, places[kind, number])))
        for clip, _ in mates:
            clip.extend(copy.deepcopy(link) for _, link in mates)


def _lies_on(item: Item, kind: str, number: int) -> bool:
    material = item.material
    if kind == "video":
        return bool(material.picture)
    return bool(material.sound) and material.channels >= number


def _link_to(clip: ElementTree.Element, kind: str, track: int, place: int) -> ElementTree.Element:
    link = ElementTree.Element("link")
    told = {"linkclipref": clip.get("id"), "mediatype": kind}
    told |= {"trackindex": str(track), "clipindex": str(place)}
    for name, value in told.items():
        ElementTree.SubElement(link, name).text = value
    return link
