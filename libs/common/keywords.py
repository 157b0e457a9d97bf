"""Keyword groups: one language for every place that searches by words (domain.md 1.15).

A space or a comma between words means AND, ``|`` between groups means OR:
``利率 债券 | 股票`` is (利率 AND 债券) OR 股票. ``%``, ``_`` and ``\\`` are ordinary characters.

Upper and lower case are the same. What that means is decided here and not by the collation of a
database, since ``lower()`` differs between PostgreSQL's providers and releases: two characters are
the same when they fold to the same single character. ``to_sql`` therefore spells the variants of a
letter out, and ``matches`` says the same about a text in memory.
"""

import functools
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, SQLColumnExpression, and_, or_, true

# Full-width kin of the operators count as them.
_OPERATORS = str.maketrans({"｜": "|", "，": ",", "\u3000": " "})
# No character from here on has another case that folds into one character below or above
# (Adlam, at U+1E900, is the last alphabet with cases).
_LAST_CASED = 0x1F000


def parse(text: str) -> list[list[str]]:
    """Read keyword text into groups: an OR of ANDs. Empty text, or operators alone, give ``[]``."""
    groups = [group.replace(",", " ").split() for group in text.translate(_OPERATORS).split("|")]
    return [list(dict.fromkeys(words)) for words in groups if words]


def matches(groups: Sequence[Sequence[str]], text: str) -> bool:
    """Tell whether all the words of at least one group occur in ``text``; no groups match everything."""
    if not groups:
        return True
    folded = fold(text)
    return any(all(fold(word) in folded for word in words) for words in groups)


def to_sql(
    groups: Sequence[Sequence[str]], columns: Sequence[SQLColumnExpression[Any]]
) -> ColumnElement[bool]:
    """Build the condition for ``groups`` over ``columns``; no groups give a true condition.

    A word of a group may be in any of the columns; a group holds when each of its words is in one.
    A NULL column holds no word.
    """
    if not groups:
        return true()
    return or_(
        *(
            and_(*(or_(*(_contains(column, word) for column in columns)) for word in words))
            for words in groups
        )
    )


def _contains(column: SQLColumnExpression[Any], word: str) -> ColumnElement[bool]:
    variants = _variants()
    if all(len(variants.get(_fold_character(character), "")) < 2 for character in word):
        # no letter with cases in it (Chinese, digits): plain LIKE is the cheaper search
        return column.contains(word, autoescape=True, escape="\\")
    return column.regexp_match("".join(_pattern(character) for character in word))


def _pattern(character: str) -> str:
    """Return a regular expression for one character in all its cases."""
    variants = _variants().get(_fold_character(character), character)
    if len(variants) > 1:
        return f"[{variants}]"
    # only ASCII punctuation has a meaning in a pattern; a backslash before a letter would give it one
    return f"\\{character}" if character.isascii() and not character.isalnum() else character


def fold(text: str) -> str:
    """Return ``text`` without its cases, one character for each of its characters."""
    return "".join(map(_fold_character, text))


@functools.lru_cache(maxsize=65536)
def _fold_character(character: str) -> str:
    if character == "İ":  # folds to "i" and a combining dot; people type a plain i
        return "i"
    for folded in (character.casefold(), character.lower()):
        if len(folded) == 1:
            return folded
    return character


@functools.cache
def _variants() -> dict[str, str]:
    """Map each folded character to all the characters that fold to it, where there is more than one."""
    kin: dict[str, list[str]] = {}
    for character in map(chr, range(_LAST_CASED)):
        folded = _fold_character(character)
        if folded != character:
            kin.setdefault(folded, [folded]).append(character)
    return {folded: "".join(characters) for folded, characters in kin.items()}
