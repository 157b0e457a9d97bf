"""What goes into a draft: whole frames, plain names, media by relative paths, the same bytes each time."""

import json
import zipfile
from fractions import Fraction
from pathlib import Path

import pytest

from services.asr.slicing.drafts import jianying, srt
from services.asr.slicing.drafts.fcp7_file import write_fcp7
from services.asr.slicing.drafts.names import clip_name, plain_name
from services.asr.slicing.drafts.otio_file import write_otio
from services.asr.slicing.drafts.package import Package, Stopped, size_and_sha1
from services.asr.slicing.drafts.rates import timeline_rate
from services.asr.slicing.drafts.timeline import EmptyDraft, build
from services.asr.slicing.drafts.write import FORMATS, Order, files
from services.asr.slicing.selection import Said
from tests.unit.slicing.drafts import material, timeline


@pytest.mark.parametrize(
    ("fps", "rate"),
    [
        (Fraction(0), Fraction(25)),
        (Fraction("24.97"), Fraction(25)),
        (Fraction("29.2"), Fraction(30000, 1001)),
        (Fraction(2997, 100), Fraction(30000, 1001)),
        (Fraction(15), Fraction(24000, 1001)),
        (Fraction(120), Fraction(60)),
    ],
)
def test_a_rate_that_no_editor_knows_becomes_the_nearest_that_they_know(
    fps: Fraction, rate: Fraction
) -> None:
    assert timeline_rate(fps) == rate


def test_the_timelines_rate_is_that_of_most_of_what_is_shown() -> None:
    clips = [
        material(i, picture=Fraction(length), fps=Fraction(fps))
        for i, (length, fps) in enumerate([(3, "25"), (2, "30"), (2, "29.999")])
    ]
    assert build("x", clips, []).rate == 30
    assert build("x", clips[:2], []).rate == 25


@pytest.mark.parametrize("short_ms", [0, 1])
def test_a_clip_that_is_a_millisecond_shorter_than_it_says_is_not_exceeded(short_ms: int) -> None:
    picture = Fraction(10_000 - short_ms, 1000)
    made = build("x", [material(0, picture=picture, length_ms=10_000)], [Said(0, 0, 10_000, "话")])
    assert made.frames == (250 if short_ms == 0 else 249)
    assert made.captions[0].end <= made.frames
    content = json.loads(jianying.write(made, "x")["draft_content.json"])
    (segment,) = content["tracks"][0]["segments"]
    assert segment["source_timerange"]["duration"] <= content["materials"]["videos"][0]["duration"]


def test_sound_that_outlasts_its_picture_ends_with_it() -> None:
    made = build(
        "x", [material(0, picture=Fraction(4), sound=Fraction(7)), material(1, picture=Fraction(1))], []
    )
    assert [(item.start, item.frames) for item in made.items] == [(0, 100), (100, 25)]


def test_sound_alone_is_on_a_track_of_sound() -> None:
    made = build("x", [material(0, picture=Fraction(0), sound=Fraction(3))], [Said(0, 0, 900, "话")])
    assert made.frames == 75
    assert 'kind": "Video"' not in write_otio(made).replace("Track.1", "")
    content = json.loads(jianying.write(made, "x")["draft_content.json"])
    assert [track["type"] for track in content["tracks"]] == ["audio", "text"]
    assert content["materials"]["videos"] == []
    assert "pathurl" in write_fcp7(made)


def test_a_clip_without_a_single_frame_is_left_out_and_a_draft_of_such_is_refused() -> None:
    made = build("x", [material(0, picture=Fraction(1, 100)), material(1, picture=Fraction(1))], [])
    assert [item.start for item in made.items] == [0]
    with pytest.raises(EmptyDraft):
        build("x", [material(0, picture=Fraction(1, 100))], [])


def test_subtitles_beside_the_media_have_their_names_also_where_a_clip_is_left_out() -> None:
    clips = [material(0, picture=Fraction(1, 100)), material(1, picture=Fraction(4), title="锅\x07 100%")]
    made = build("x", clips, [Said(0, 200_000, 202_000, "话")])
    written = files(made, Order("srt"), "x")
    assert {name for name in written if name.startswith("media/")} == {
        f"media/{clips[1].file_name.removesuffix('.mp4')}.srt"
    }


def test_captions_stay_within_their_clip_and_apart_from_one_another() -> None:
    clip = material(1, picture=Fraction(4))
    said = [
        Said(0, 199_000, 201_000, "开始之前"),
        Said(1, 200_500, 202_000, "重叠"),
        Said(2, 203_500, 206_000, "结束之后"),
        Said(3, 300_000, 301_000, "别处"),
        Said(4, 202_000, 203_000, " \n "),
    ]
    made = build("x", [clip], said)
    assert [(c.start, c.end, c.text) for c in made.captions] == [
        (0, 25, "开始之前"),
        (25, 50, "重叠"),
        (88, 100, "结束之后"),
    ]


def test_a_text_that_would_break_a_file_does_not() -> None:
    made = build(
        "a\x00\x07b", [material(0, picture=Fraction(4))], [Said(0, 0, 4000, "x\x0b\n\n2 --> 3\x01 <&>\ufffe")]
    )
    assert srt.write(made, made.captions) == "1\n00:00:00,000 --> 00:00:04,000\nx 2 → 3 <&>\n\n"
    assert "&lt;&amp;&gt;" in write_fcp7(made)
    assert made.name == "ab"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("三层钢 不粘锅", "三层钢_不粘锅"),
        ("-rf /", "rf"),
        ("100%20 off", "100_20_off"),
        ('it\'s "so"', "it_s_so"),
        ("🎬👗", "draft"),
        ("../../etc/passwd", "etc_passwd"),
        ("NUL", "NUL_"),
        ("Кинопоказ—2026", "Кинопоказ_2026"),
        ("e\u0301te\u0301", "été"),
        ("", "draft"),
        ("a" * 300, "a" * 40),
        ("字" * 300, "字" * 40),
    ],
)
def test_names_are_plain_whatever_a_thing_was_called(text: str, name: str) -> None:
    assert plain_name(text, "draft") == name
    assert len(clip_name(7, text).encode()) < 200


@pytest.mark.parametrize("draft_format", sorted(FORMATS))
def test_every_format_has_captions_and_names_its_media_by_relative_paths(draft_format: str) -> None:
    made = timeline(Fraction(25))
    written = files(made, Order(draft_format), "draft")
    assert written["captions.srt"].startswith("1\n00:00:00,")
    everything = "\n".join(written.values())
    assert "/work" not in everything
    assert "file://" not in everything
    assert ":/" not in everything.replace("http://", "")


def test_a_jianying_draft_lists_its_media_by_the_paths_that_the_timeline_has() -> None:
    made = timeline(Fraction(30))
    for root, start in (
        ("", "##_draftpath_placeholder_0E685133-18CE-45ED-8CB8-2904A212EC80_##/materials/"),
        ("C:\\Users\\me\\JianyingPro Drafts\\", "C:/Users/me/JianyingPro Drafts/直播_1a/materials/"),
    ):
        written = jianying.write(made, "直播_1a", root)
        content, meta = (json.loads(written[f"draft_{name}.json"]) for name in ("content", "meta_info"))
        paths = [material["path"] for material in content["materials"]["videos"]]
        assert paths == [f"{start}{item.material.file_name}" for item in made.items]
        listed = next(group["value"] for group in meta["draft_materials"] if group["type"] == 0)
        assert [entry["file_Path"] for entry in listed] == paths
        assert meta["draft_name"] == "直播_1a"


def pack(path: Path, media: Path) -> tuple[int, str]:
    with Package(path, "直播_1a") as package:
        package.add_file("media/001_锅.mp4", media, lambda count: None)
        package.add_text("captions.srt", "1\n")
    return size_and_sha1(path)


def test_a_draft_packed_again_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"\x00moving pictures" * 1000)
    first = pack(tmp_path / "a.zip", tmp_path / "clip.mp4")
    (tmp_path / "clip.mp4").touch()
    assert pack(tmp_path / "b.zip", tmp_path / "clip.mp4") == first
    with zipfile.ZipFile(tmp_path / "a.zip") as packed:
        assert packed.testzip() is None
        assert packed.namelist() == ["直播_1a/media/001_锅.mp4", "直播_1a/captions.srt"]
        assert packed.read("直播_1a/media/001_锅.mp4") == (tmp_path / "clip.mp4").read_bytes()


def test_packing_stops_when_it_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "clip.mp4").write_bytes(bytes(5 << 20))
    with Package(tmp_path / "a.zip", "x") as package:
        with pytest.raises(Stopped):
            package.add_file("media/1.mp4", tmp_path / "clip.mp4", lambda count: package.stop())
        package.add_text("rest", "")
