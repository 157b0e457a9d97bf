"""Fold texts so that spellings of one name compare equal (domain.md 4.6)."""

from __future__ import annotations

import re
import unicodedata

# Letters that no normal form takes apart, and typographic kin of ASCII punctuation.
_LETTERS = str.maketrans(
    {
        "ø": "o",
        "đ": "d",
        "ð": "d",
        "ł": "l",
        "ħ": "h",
        "ŧ": "t",
        "ı": "i",
        "ŋ": "n",
        "æ": "ae",
        "œ": "oe",
        "þ": "th",
        "‘": "'",
        "’": "'",
        "ʼ": "'",
        "′": "'",
        "`": "'",
        "´": "'",
        "‐": "-",
        "‑": "-",
        "‒": "-",
        "–": "-",
        "—": "-",
        "−": "-",
        "·": " ",
        "・": " ",
    }
)
# Combining marks of the European scripts only: kana keep their voicing, Thai and Devanagari their vowels.
# And selectors of a glyph's variant, of which a name keeps its own for those who read it.
_MARKS = re.compile(
    "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\U000e0100-\U000e01ef]"
)
# Characters without a glyph that copy and paste brings along (Unicode's Default_Ignorable_Code_Point, and the
# anchors of annotations): zero-width ones, directions, BOM, soft hyphen, fillers, tags.
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)
_FASHION_WEEK = re.compile(r"(?:(?<=\S) fashion week(?:'s|s)?|(?<=\S) ?(?:国际)?时装周|(?<=\S) ?時裝週)$")


def clean(text: str) -> str:
    """Return the text as a person would write it down: no invisible characters, single spaces, trimmed."""
    return " ".join(_INVISIBLE.sub("", text).split())


def fold(text: str) -> str:
    """Return the form that spellings of one name share: compatibility forms, case, marks and spaces gone.

    Idempotent: `fold(fold(x)) == fold(x)`.
    """
    seen = None
    folded = clean(text)
    # One pass may expose what the next one removes (a compatibility form that holds a marked letter).
    while folded != seen:
        seen = folded
        plain = _MARKS.sub("", unicodedata.normalize("NFD", unicodedata.normalize("NFKC", folded).casefold()))
        folded = clean(unicodedata.normalize("NFKC", plain.translate(_LETTERS)))
    return folded


def fold_city(text: str) -> str:
    """Return `fold` of a city's text without a "fashion week" at its end; idempotent."""
    seen = None
    folded = fold(text)
    while folded != seen:
        seen = folded
        folded = _FASHION_WEEK.sub("", folded).strip()
    return folded
