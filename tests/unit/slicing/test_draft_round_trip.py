"""Every draft format says our timeline's times, at every frame rate, read back by another's reader."""

import json
import re
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import opentimelineio as otio
import pyJianYingDraft
import pytest

from services.asr.slicing.drafts import jianying, srt
from services.asr.slicing.drafts.fcp7_file import write_fcp7
from services.asr.slicing.drafts.otio_file import write_otio
from services.asr.slicing.drafts.timeline import Timeline
from tests.unit.slicing.drafts import FRAMES, RATES, timeline

rates = pytest.mark.parametrize("rate", RATES, ids=str)


def expected_items(made: Timeline) -> list[tuple[str, int, int]]:
    return [(item.material.file_name, item.start, item.frames) for item in made.items]


def clips_on(track: otio.schema.Track, rate: Fraction) -> list[tuple[str, int, int]]:
    """Return file, first frame and length of a track's clips; all begin at their file's first frame."""
    found = []
    for clip in track:
        if not isinstance(clip, otio.schema.Clip):
            continue
        span = clip.trimmed_range_in_parent()
        assert clip.source_range.start_time.value == 0
        assert span.start_time.rate == pytest.approx(float(rate), abs=1e-6)
        url = unquote(clip.media_reference.target_url)
        assert url.startswith("media/")
        found.append((url.removeprefix("media/"), int(span.start_time.value), int(span.duration.value)))
    return found


@rates
def test_the_timeline_has_every_frame_of_every_clip(rate: Fraction) -> None:
    made = timeline(rate)
    assert [item.frames for item in made.items] == list(FRAMES)
    assert made.rate == rate
    assert made.captions
    assert all(a.end <= b.start for a, b in zip(made.captions, made.captions[1:], strict=False))


@rates
def test_otio_gives_back_clips_and_captions_to_the_frame(rate: Fraction) -> None:
    made = timeline(rate)
    back = otio.adapters.read_from_string(write_otio(made), "otio_json")
    assert back.name == "春季 直播"
    assert {track.kind for track in back.tracks} == {"Video", "Audio"}
    for track in back.tracks:
        assert clips_on(track, rate) == expected_items(made)
        for clip, item in zip(track, made.items, strict=True):
            assert (clip.name, clip.available_range().duration.value) == (item.material.title, item.frames)
    marked = [
        (int(m.marked_range.start_time.value), int(m.marked_range.end_time_exclusive().value), m.comment)
        for m in back.tracks.markers
    ]
    assert marked == [(c.start, c.end, c.text) for c in made.captions]


@rates
def test_final_cut_xml_gives_back_clips_and_captions_to_the_frame(rate: Fraction) -> None:
    made = timeline(rate)
    written = write_fcp7(made)
    timebase, ntsc = ("24", "TRUE") if rate == Fraction(24000, 1001) else (str(round(rate)), "FALSE")
    ntsc = "TRUE" if rate.denominator == 1001 else ntsc
    assert set(re.findall(r"<timebase>(\d+)</timebase>\s*<ntsc>(\w+)</ntsc>", written)) == {(timebase, ntsc)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        back = otio.adapters.read_from_string(written, "fcp_xml")
    picture, captions, sound = back.tracks  # both channels of the sound are one track to the reader
    # the reader rounds the rate to three places; frames are what is compared
    for track in (picture, sound):
        found = [
            (
                unquote(clip.media_reference.target_url).removeprefix("media/"),
                int(clip.trimmed_range_in_parent().start_time.value),
                int(clip.trimmed_range_in_parent().duration.value),
            )
            for clip in track
        ]
        assert found == expected_items(made)
    titles = [clip for clip in captions if isinstance(clip, otio.schema.Clip)]
    spans = [clip.trimmed_range_in_parent() for clip in titles]
    texts = [clip.media_reference.metadata["fcp_xml"]["parameter"]["value"] for clip in titles]
    assert [
        (int(s.start_time.value), int(s.end_time_exclusive().value), text)
        for s, text in zip(spans, texts, strict=True)
    ] == [(c.start, c.end, c.text) for c in made.captions]


@rates
def test_subtitles_are_within_a_frame_of_the_timeline(rate: Fraction) -> None:
    made = timeline(rate)
    cue = re.compile(r"(\d+)\n([\d:,]+) --> ([\d:,]+)\n(.*)\n\n")
    cues = cue.findall(srt.write(made, made.captions))
    assert [text for _, _, _, text in cues] == [c.text for c in made.captions]
    for (_, start, end, _), caption in zip(cues, made.captions, strict=True):
        assert abs(seconds(start) - caption.start / rate) < 1 / rate / 10
        assert abs(seconds(end) - caption.end / rate) < 1 / rate / 10
    for item in made.items:
        own = cue.findall(srt.write(made, made.captions_of(item)))
        assert all(seconds(start) * rate < item.frames for _, start, _, _ in own)


def seconds(clock: str) -> Fraction:
    hours, minutes, rest = clock.split(":")
    whole, milliseconds = rest.split(",")
    return Fraction(int(hours) * 3600 + int(minutes) * 60 + int(whole)) + Fraction(int(milliseconds), 1000)


def draft_of(made: Timeline, draft_root: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    """Write a JianYing draft and return its content and its list of media; both contents are the same."""
    files = jianying.write(made, "直播_1a2b3c", draft_root)
    assert set(files) == {"draft_content.json", "draft_info.json", "draft_meta_info.json"}
    assert files["draft_content.json"] == files["draft_info.json"]
    return json.loads(files["draft_content.json"]), json.loads(files["draft_meta_info.json"])


@rates
def test_a_jianying_draft_is_within_a_frame_and_inside_its_material_to_the_microsecond(
    rate: Fraction,
) -> None:
    made = timeline(rate)
    content, meta = draft_of(made)
    frame_us = 1_000_000 / rate
    materials = {m["id"]: m for m in content["materials"]["videos"]}
    video = next(track for track in content["tracks"] if track["type"] == "video")
    free = 0
    for segment, item in zip(video["segments"], made.items, strict=True):
        target, source = segment["target_timerange"], segment["source_timerange"]
        assert all(isinstance(v, int) for v in (*target.values(), *source.values()))
        assert abs(target["start"] - item.start * frame_us) < frame_us
        assert abs(target["duration"] - item.frames * frame_us) < frame_us
        assert target["start"] >= free
        assert source == {"start": 0, "duration": target["duration"]}
        material = materials[segment["material_id"]]
        assert source["duration"] <= material["duration"] <= item.material.length * 1_000_000
        assert material["material_name"] == item.material.file_name
        free = target["start"] + target["duration"]
    assert content["duration"] >= free
    assert content["fps"] == float(rate)
    texts = {t["id"]: json.loads(t["content"])["text"] for t in content["materials"]["texts"]}
    track = next(track for track in content["tracks"] if track["type"] == "text")
    for segment, caption in zip(track["segments"], made.captions, strict=True):
        target = segment["target_timerange"]
        assert abs(target["start"] - caption.start * frame_us) < frame_us
        assert abs(target["start"] + target["duration"] - caption.end * frame_us) < frame_us
        assert texts[segment["material_id"]] == caption.text
    assert meta["tm_duration"] == content["duration"]


@rates
def test_another_library_opens_the_jianying_draft(rate: Fraction, tmp_path: Path) -> None:
    made = timeline(rate)
    (tmp_path / "draft").mkdir()
    for name, text in jianying.write(made, "draft").items():
        (tmp_path / "draft" / name).write_text(text)
    script = pyJianYingDraft.DraftFolder(str(tmp_path)).load_template("draft")
    assert script.duration == int(made.frames / rate * 1_000_000)
    assert (script.width, script.height) == (416, 234)
    tracks = {type(track).__name__: track for track in script.imported_tracks}
    spans = [
        (s.target_timerange.start, s.target_timerange.duration) for s in tracks["ImportedMediaTrack"].segments
    ]
    assert len(spans) == len(made.items)
    assert [start for start, _ in spans] == [int(item.start / rate * 1_000_000) for item in made.items]
    again = json.loads(script.dumps())
    assert len(again["materials"]["videos"]) == len(made.items)
    assert len(again["materials"]["texts"]) == len(made.captions)
