"""What a paragraph is found by: pairs of characters and pairs of syllables, in one inverted index.

Two-character Chinese words have no trigram (domain.md 1.15), so trigrams index nothing that people look for.
The index only narrows; the text and its syllables are compared as well, so that nothing false is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, and_, or_, true

from libs.common import keywords
from services.asr.models import transcript_paragraphs
from services.asr.sounds import is_heard, pairs, syllables


@dataclass(frozen=True, slots=True)
class Terms:
    """The columns that make a paragraph be found."""

    grams: list[str]
    sounds: str


def terms_of(text: str) -> Terms:
    """Return what a paragraph's text is found by; takes half a second for an hour of speech."""
    spoken = syllables(text)
    return Terms(sorted(character_grams(text) | pairs(spoken)), spoken)


def character_grams(text: str) -> set[str]:
    """Return the characters of a text and each two neighbouring ones, without their cases."""
    found: set[str] = set()
    for piece in keywords.fold(text).split():
        found.update(piece)
        found.update(first + second for first, second in pairwise(piece))
    return found


def condition(groups: Sequence[Sequence[str]]) -> ColumnElement[bool]:
    """Build the condition on paragraphs for keyword groups; no groups give a true condition.

    A word is in a paragraph when it is written there, or is Chinese and sounds the same.
    """
    if not groups:
        return true()
    return or_(*(and_(*(or_(written(word), *_heard(word)) for word in words)) for words in groups))


def as_written(groups: Sequence[Sequence[str]]) -> ColumnElement[bool]:
    """Build the condition that all words of a group stand in a paragraph as they are written."""
    return keywords.to_sql(groups, (transcript_paragraphs.c.text,))


def written(word: str) -> ColumnElement[bool]:
    """Build the condition that a word stands in a paragraph as it is written."""
    columns = transcript_paragraphs.c
    grams = character_grams(word)
    # the single characters of a longer word narrow nothing that its pairs don't
    narrow = {gram for gram in grams if len(gram) > 1} or grams
    return and_(columns.grams.contains(sorted(narrow)), keywords.to_sql([[word]], (columns.text,)))


def _heard(word: str) -> list[ColumnElement[bool]]:
    if not is_heard(word):
        return []
    columns: Any = transcript_paragraphs.c
    spoken = syllables(word)
    return [and_(columns.grams.contains(sorted(pairs(spoken))), columns.sounds.contains(spoken))]
