"""Final Cut Pro 7 XML as applications read it: every clip and caption is written out, with all its sound."""

from collections import Counter
from fractions import Fraction
from xml.etree import ElementTree

from services.asr.slicing.drafts.fcp7_file import write_fcp7
from services.asr.slicing.drafts.timeline import Timeline, build
from services.asr.slicing.selection import Said
from tests.unit.slicing.drafts import RATES, material, timeline


def tracks_of(made: Timeline, kind: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(write_fcp7(made)).findall(f".//sequence/media/{kind}/track")


def places(track: ElementTree.Element, tag: str) -> list[tuple[int, int, int, int]]:
    """Return start, end, in and out of the items of a track, each as it is written at its own place."""
    names = ("start", "end", "in", "out")
    found = [[item.findtext(name) for name in names] for item in track.findall(tag)]
    return [(int(a or -1), int(b or -1), int(c or -1), int(d or -1)) for a, b, c, d in found]


def test_sound_and_picture_of_a_clip_are_each_written_at_their_place() -> None:
    for rate in RATES:
        made = timeline(rate)
        whole = [(item.start, item.start + item.frames, 0, item.frames) for item in made.items]
        tracks = [tracks_of(made, "video")[0], *tracks_of(made, "audio")]
        assert [places(track, "clipitem") for track in tracks] == [whole] * 3, "a picture and two channels"


def test_the_same_words_said_again_are_written_again_at_their_own_place() -> None:
    said = [Said(i, at, at + 400, "好的") for i, at in enumerate(range(0, 9000, 1000))]
    made = build("x", [material(0, picture=Fraction(10))], said)
    captions = tracks_of(made, "video")[1]
    assert [(start, end) for start, end, _, _ in places(captions, "generatoritem")] == [
        (caption.start, caption.end) for caption in made.captions
    ]
    assert len(list(captions)) == len(made.captions) == 9


def test_each_channel_of_a_clip_has_a_track_and_says_which_it_is() -> None:
    clips = [
        material(0, picture=Fraction(4), channels=2),
        material(1, picture=Fraction(2), channels=1),
        material(2, picture=Fraction(3), sound=Fraction(0), channels=0),
    ]
    left, right = tracks_of(build("x", clips, []), "audio")
    assert [places(track, "clipitem") for track in (left, right)] == [
        [(0, 100, 0, 100), (100, 150, 0, 50)],
        [(0, 100, 0, 100)],
    ]
    for number, track in ((1, left), (2, right)):
        assert track.findtext("outputchannelindex") == str(number)
        assert {item.findtext("sourcetrack/trackindex") for item in track.findall("clipitem")} == {
            str(number)
        }


def test_files_say_what_is_in_them() -> None:
    clips = [
        material(0, picture=Fraction(4), channels=1),
        material(1, picture=Fraction(0), sound=Fraction(3)),
    ]
    root = ElementTree.fromstring(write_fcp7(build("x", clips, [])))
    first, second = (file for file in root.iter("file") if file.find("pathurl") is not None)
    assert first.findtext("media/video/samplecharacteristics/width") == "416"
    assert first.findtext("media/audio/channelcount") == "1"
    assert second.find("media/video") is None
    assert second.findtext("media/audio/channelcount") == "2"


def test_picture_and_sound_of_a_clip_are_linked_and_every_name_is_given_once() -> None:
    root = ElementTree.fromstring(write_fcp7(timeline(Fraction(25))))
    items = {item.get("id"): item for item in root.iter("clipitem")}
    assert len(items) == len(list(root.iter("clipitem"))) == 12
    mates = Counter(link.findtext("linkclipref") for link in root.iter("link"))
    assert mates == dict.fromkeys(items, 3)
    for item in items.values():
        linked = [items[link.findtext("linkclipref")] for link in item.findall("link")]
        assert item in linked
        assert {mate.findtext("start") for mate in linked} == {item.findtext("start")}


def test_it_is_the_kind_of_document_that_applications_look_for() -> None:
    head = write_fcp7(timeline(Fraction(25))).splitlines()[:3]
    assert head[1:] == ["<!DOCTYPE xmeml>", '<xmeml version="4">']
