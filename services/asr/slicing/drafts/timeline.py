"""The timeline of a draft: clips one after another with their captions, in whole frames. Pure values."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from services.asr.slicing.drafts.rates import timeline_rate
from services.asr.slicing.selection import Said

_MILLISECONDS = 1000
# A time that was rounded to the millisecond may lie that much before the frame that it means.
_ROUNDING = Fraction(1, 1000)


@dataclass(frozen=True)
class Material:
    """A clip's file and its facts: exact lengths in seconds, `picture` 0 for sound alone.

    `start_ms` and `end_ms` are the clip's on the recording's clock, by which its words are found. Width and
    height are those it is shown in; `channels` are the sound's.
    """

    clip_id: str
    title: str
    file_name: str
    start_ms: int
    end_ms: int
    picture: Fraction
    sound: Fraction
    fps: Fraction
    width: int
    height: int
    channels: int

    @property
    def length(self) -> Fraction:
        """What can be shown and heard of it: a sound that outlasts its picture is cut with it."""
        return self.picture or self.sound


@dataclass(frozen=True)
class Item:
    """A clip on the timeline: all its frames, from frame `start` on."""

    material: Material
    start: int
    frames: int


@dataclass(frozen=True)
class Caption:
    """Words on the screen in frames `[start, end)` of the timeline."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Timeline:
    """Clips and captions at `rate` frames a second; captions never overlap."""

    name: str
    rate: Fraction
    width: int
    height: int
    items: tuple[Item, ...]
    captions: tuple[Caption, ...]

    @property
    def frames(self) -> int:
        """The length in frames."""
        return self.items[-1].start + self.items[-1].frames if self.items else 0

    def seconds(self, frame: int) -> Fraction:
        """Return when a frame begins."""
        return frame / self.rate

    def milliseconds(self, frame: int) -> int:
        """Return when a frame begins, to the nearest millisecond."""
        return round(self.seconds(frame) * _MILLISECONDS)

    def captions_of(self, item: Item) -> list[Caption]:
        """Return the captions within a clip, on the clip's own clock."""
        end = item.start + item.frames
        inside = [c for c in self.captions if item.start <= c.start < end]
        return [Caption(c.start - item.start, c.end - item.start, c.text) for c in inside]


class EmptyDraft(Exception):
    """Nothing of the clips is long enough for a single frame."""


def build(name: str, materials: Sequence[Material], said: Iterable[Said]) -> Timeline:
    """Lay out the clips in their order, each as long as whole frames of it are there.

    Raises:
        EmptyDraft: no clip has a frame.
    """
    shown = [material for material in materials if material.picture]
    rate = _rate(shown)
    items: list[Item] = []
    at = 0
    for material in materials:
        # a length is rounded down: no application takes a frame past the material
        frames = int((material.length + _ROUNDING / 4) * rate)
        if frames > 0:
            items.append(Item(material, at, frames))
            at += frames
    if not items:
        raise EmptyDraft("no clip is as long as a single frame")
    words = sorted(said, key=lambda s: (s.start_ms, s.index))
    captions = [caption for item in items for caption in _captions(item, words, rate)]
    return Timeline(
        name=plain(name),
        rate=rate,
        width=max((m.width for m in shown), default=0),
        height=max((m.height for m in shown), default=0),
        items=tuple(items),
        captions=tuple(captions),
    )


def _rate(shown: Sequence[Material]) -> Fraction:
    """Return the rate of most of what is shown: an encoder may change it on the way."""
    lengths: dict[Fraction, Fraction] = {}
    for material in shown:
        rate = timeline_rate(material.fps)
        lengths[rate] = lengths.get(rate, Fraction(0)) + material.picture
    return max(lengths, key=lambda rate: lengths[rate], default=timeline_rate(Fraction(0)))


def plain(text: str) -> str:
    """Return a text on one line, without characters that no XML may hold."""
    held = (c for c in text if unicodedata.category(c) not in ("Cc", "Cs", "Cn") or c.isspace())
    return " ".join("".join(held).split())


def _captions(item: Item, said: Sequence[Said], rate: Fraction) -> list[Caption]:
    """Put the words that are said in a clip onto its frames, one caption after another."""
    material, captions = item.material, list[Caption]()
    free = item.start
    for words in said:
        text = plain(words.text)
        if not text or words.end_ms <= material.start_ms or words.start_ms >= material.end_ms:
            continue
        start = max(free, item.start + _frame(words.start_ms - material.start_ms, rate))
        end = min(item.start + item.frames, item.start + _frame(words.end_ms - material.start_ms, rate))
        if end > start:
            captions.append(Caption(start, end, text))
            free = end
    return captions


def _frame(offset_ms: int, rate: Fraction) -> int:
    """Return the frame that begins nearest to an offset, never before the first."""
    return max(0, round(Fraction(offset_ms, _MILLISECONDS) * rate))
