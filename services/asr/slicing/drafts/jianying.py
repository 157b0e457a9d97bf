"""The timeline as a draft of JianYing and CapCut: JSON, times in whole microseconds.

Media are named by the application's own word for "this draft's folder", or by their paths below the folder of
drafts that the editor has named.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from services.asr.slicing.drafts import jianying_form as form
from services.asr.slicing.drafts.timeline import Caption, Item, Timeline

Json = dict[str, Any]

MEDIA_FOLDER = "materials"
_DRAFT_FOLDER_WORD = "##_draftpath_placeholder_0E685133-18CE-45ED-8CB8-2904A212EC80_##"
_MICROSECONDS = 1_000_000


def write(timeline: Timeline, folder: str, draft_root: str = "") -> dict[str, str]:
    """Write the draft's files: name to text. `folder` is the draft's own, `draft_root` the one it lies in.

    Both names that the application's versions look for hold the same.
    """
    place = _DRAFT_FOLDER_WORD
    if draft_root:
        place = draft_root.replace("\\", "/").rstrip("/") + f"/{folder}"
    content = _text(_Draft(timeline, folder, place).content())
    meta = form.meta(
        draft_id=_id(folder, "draft"),
        name=folder,
        folder_path=place if draft_root else "",
        root_path=draft_root.replace("\\", "/").rstrip("/"),
        duration_us=_us(timeline, timeline.frames),
        media=[_listed(timeline, item, place) for item in timeline.items],
    )
    return {
        "draft_content.json": content,
        "draft_info.json": content,
        "draft_meta_info.json": _text(meta),
    }


class _Draft:
    """Builds the content of one draft; ids are made of what they stand for, so that a repeat is the same."""

    def __init__(self, timeline: Timeline, folder: str, place: str) -> None:
        self._timeline = timeline
        self._folder = folder
        self._place = place
        self._materials: dict[str, list[Json]] = {name: [] for name in form.MATERIALS}

    def content(self) -> Json:
        """Return the whole draft."""
        timeline = self._timeline
        tracks = [
            self._track("video", [self._item(i) for i in timeline.items if i.material.picture]),
            self._track("audio", [self._item(i) for i in timeline.items if not i.material.picture]),
            self._track("text", [self._caption(n, c) for n, c in enumerate(timeline.captions)]),
        ]
        tracks = [track for track in tracks if track["segments"]]
        for index, track in enumerate(tracks):
            for segment in track["segments"]:
                segment["render_index"] = index
        return form.content(
            draft_id=_id(self._folder, "content"),
            name=self._folder,
            fps=float(timeline.rate),
            size=(timeline.width or 1920, timeline.height or 1080),
            duration_us=_us(timeline, timeline.frames),
            materials=self._materials,
            tracks=tracks,
        )

    def _track(self, kind: str, segments: list[Json]) -> Json:
        return form.track(_id(self._folder, kind), kind, segments)

    def _item(self, item: Item) -> Json:
        material = item.material
        kind = "videos" if material.picture else "audios"
        material_id = _id(self._folder, f"material {item.start}")
        self._materials[kind].append(
            form.material(
                material_id,
                kind,
                name=material.file_name,
                path=f"{self._place}/{MEDIA_FOLDER}/{material.file_name}",
                duration_us=_length_us(item),
                size=(material.width, material.height),
            )
        )
        start, end = _us(self._timeline, item.start), _us(self._timeline, item.start + item.frames)
        # never a microsecond past the material: the application refuses the whole draft for it
        length = min(end - start, _length_us(item))
        segment = self._segment(f"segment {item.start}", material_id, start, length)
        segment["source_timerange"] = {"start": 0, "duration": length}
        return segment

    def _caption(self, number: int, caption: Caption) -> Json:
        text_id = _id(self._folder, f"text {number}")
        self._materials["texts"].append(form.text(text_id, caption.text))
        start, end = _us(self._timeline, caption.start), _us(self._timeline, caption.end)
        segment = self._segment(f"caption {number}", text_id, start, end - start)
        segment["source_timerange"] = None
        segment["clip"]["transform"]["y"] = form.CAPTION_HEIGHT
        return segment

    def _segment(self, what: str, material_id: str, start_us: int, length_us: int) -> Json:
        speed_id = _id(self._folder, f"speed of {what}")
        self._materials["speeds"].append(form.speed(speed_id))
        return form.segment(_id(self._folder, what), material_id, (start_us, length_us), speed_id)


def _listed(timeline: Timeline, item: Item, place: str) -> Json:
    """Return the entry in the list of imported media, without which CapCut asks where the file is."""
    material = item.material
    return form.listed(
        _id(material.clip_id, "listed"),
        "video" if material.picture else "music",
        name=material.file_name,
        path=f"{place}/{MEDIA_FOLDER}/{material.file_name}",
        duration_us=_length_us(item),
        size=(material.width, material.height),
    )


def _us(timeline: Timeline, frame: int) -> int:
    """Return when a frame begins, in whole microseconds, rounded down: neighbours touch and never overlap."""
    return int(timeline.seconds(frame) * _MICROSECONDS)


def _length_us(item: Item) -> int:
    return int(item.material.length * _MICROSECONDS)


def _id(folder: str, what: str) -> str:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{folder}/{what}").hex


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)
