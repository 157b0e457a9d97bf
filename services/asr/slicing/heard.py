"""Keywords as they are heard: exact, or by the sound of the words.

A recogniser writes a word it doesn't know with other characters of the same sound, so a Chinese word of
two or more characters also matches by its syllables without tones.
"""

from __future__ import annotations

from collections.abc import Sequence

from pypinyin import lazy_pinyin

from libs.common.keywords import fold, parse

__all__ = ["Heard", "parse"]


class Heard:
    """A text that is searched for several words."""

    def __init__(self, text: str) -> None:
        self._folded = fold(text)
        self._syllables: str | None = None

    def has(self, word: str) -> bool:
        """Tell whether `word` is in the text, as written or as it sounds."""
        if fold(word) in self._folded:
            return True
        if len(word) < 2 or not all(_is_chinese(character) for character in word):
            return False
        if self._syllables is None:
            self._syllables = _syllables(self._folded)
        return _syllables(word) in self._syllables

    def has_all(self, words: Sequence[str]) -> bool:
        """Tell whether every one of `words` is in the text."""
        return all(self.has(word) for word in words)


def _is_chinese(character: str) -> bool:
    return "\u4e00" <= character <= "\u9fff"


def _syllables(text: str) -> str:
    """Return the syllables between spaces, so that one is never found inside another."""
    return f" {' '.join(lazy_pinyin(text))} "
