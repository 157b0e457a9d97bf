"""How Chinese words sound: their syllables without tones.

A recogniser writes a word it doesn't know with other characters of the same sound, so a word of two or more
Chinese characters is also looked for by its syllables. What is said here about a text in memory
(`sounds_like`) is what `transcript_terms` says in SQL.
"""

from __future__ import annotations

import functools
import re
from itertools import pairwise

from libs.common.keywords import fold

_CHINESE = re.compile(r"([\u4e00-\u9fff]+)")


def is_heard(word: str) -> bool:
    """Tell whether a word is looked for by its sound, too: two or more characters, all Chinese."""
    return len(word) >= 2 and all("\u4e00" <= character <= "\u9fff" for character in word)


def syllables(text: str) -> str:
    """Return the syllables of a text between spaces, so that one is never found inside another.

    What is no Chinese stays as it is, without its cases.
    """
    # its dictionaries take a second, which no start has to wait for
    from pypinyin.contrib.mmseg import seg

    found: list[str] = []
    for piece in _CHINESE.split(fold(text)):
        found += map(_of_word, seg.cut(piece)) if _CHINESE.fullmatch(piece) else piece.split()
    return f" {' '.join(found)} "


@functools.lru_cache(maxsize=1 << 16)
def _of_word(word: str) -> str:
    from pypinyin import lazy_pinyin

    # as one word: a character sounds as it does in this one
    return " ".join(lazy_pinyin([word]))


def sounds_like(spoken: str, word: str) -> bool:
    """Tell whether `word` is heard in `spoken`, a text's `syllables`."""
    return is_heard(word) and syllables(word) in spoken


def pairs(spoken: str) -> set[str]:
    """Return each two neighbouring syllables of `syllables`, with the space between them."""
    return {f"{first} {second}" for first, second in pairwise(spoken.split())}
