"""Give the words of an answer, which stand beside its segments, to the segments that they were said in.

Servers write words without the punctuation of the text. They are matched by letters and digits alone, and
then written as the text has them: punctuation goes to the word before it, space to the one behind.
"""

import re
from collections.abc import Sequence

from services.asr.worker.speech import Word

_SILENT = re.compile(r"[\W_]+")


class Words:
    """The words of one answer, taken segment by segment, in order."""

    def __init__(self, words: Sequence[Word]) -> None:
        self._words = [word for word in words if _bare(word.text)]
        self._next = 0

    def of(self, text: str, start_ms: int) -> tuple[Word, ...]:
        """Return the words that spell `text`, a segment that begins at `start_ms`; none when they don't.

        Joined, they are the text, all of it.
        """
        from_time = next(
            (place for place, word in enumerate(self._words) if word.start_ms >= start_ms), len(self._words)
        )
        # times of words and segments differ by a little: first by order, then by time
        for begin in dict.fromkeys((self._next, from_time, max(0, from_time - 1))):
            count = self._spelling(text, begin)
            if count:
                self._next = begin + count
                return _written(text, self._words[begin : begin + count])
        return ()

    def _spelling(self, text: str, begin: int) -> int:
        """Return how many words from `begin` on spell the text; 0 when they don't."""
        left = _bare(text)
        for count, word in enumerate(self._words[begin:], start=1):
            said = _bare(word.text)
            if not left.startswith(said):
                return 0
            left = left[len(said) :]
            if not left:
                return count
        return 0


def _written(text: str, words: Sequence[Word]) -> tuple[Word, ...]:
    """Cut the text, which the words spell, into one piece for each of them."""
    ends = []
    place = 0
    for word in words:
        left = _bare(word.text)
        while left:
            left = left[len(_bare(text[place])) :]
            place += 1
        while place < len(text) and not _bare(text[place]) and not text[place].isspace():
            place += 1
        ends.append(place)
    starts = [0, *ends[:-1]]
    ends[-1] = len(text)
    return tuple(
        Word(text[start:end], word.start_ms, word.end_ms)
        for word, start, end in zip(words, starts, ends, strict=True)
    )


def _bare(text: str) -> str:
    return _SILENT.sub("", text).casefold()
