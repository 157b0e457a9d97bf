"""Keywords as they are heard: exact, or by the sound of the words (`services.asr.sounds`)."""

from __future__ import annotations

from collections.abc import Sequence

from libs.common.keywords import fold
from services.asr.sounds import is_heard, sounds_like, syllables


class Heard:
    """A text that is searched for several words."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._folded = fold(text)
        self._spoken: str | None = None

    def has(self, word: str) -> bool:
        """Tell whether `word` is in the text, as written or as it sounds."""
        if fold(word) in self._folded:
            return True
        if not is_heard(word):
            return False
        if self._spoken is None:
            self._spoken = syllables(self._text)
        return sounds_like(self._spoken, word)

    def has_all(self, words: Sequence[str]) -> bool:
        """Tell whether every one of `words` is in the text."""
        return all(self.has(word) for word in words)
