"""Put utterances together into readable paragraphs."""

import re
from collections.abc import Collection, Sequence

from services.asr.worker.speech import Paragraph, Utterance

MAX_CHARACTERS = 200
# A pause this long ends a paragraph that is worth reading by itself.
_PAUSE_MS = 2000
_WORTH_CHARACTERS = 80
_ENDS_CLAUSE = re.compile(r"[\W_]$")
_WIDE = re.compile(r"[\u3400-\u9fff\u3040-\u30ff]")


def paragraphs(utterances: Sequence[Utterance], breaks: Collection[int] = ()) -> list[Paragraph]:
    """Make paragraphs of at most 200 characters; every utterance is in exactly one, in order.

    `breaks` are indices of utterances that begin a paragraph in any case (a new topic).
    """
    made: list[Paragraph] = []
    text, first = "", 0
    for index, utterance in enumerate(utterances):
        joined = _join(text, utterance.text)
        if text and (index in breaks or len(joined) > MAX_CHARACTERS or _pauses(utterances, index, text)):
            made.append(_paragraph(utterances, first, index, text))
            joined, first = utterance.text, index
        text = joined
    if text:
        made.append(_paragraph(utterances, first, len(utterances), text))
    return made


def _pauses(utterances: Sequence[Utterance], index: int, text: str) -> bool:
    gap_ms = utterances[index].start_ms - utterances[index - 1].end_ms
    return gap_ms >= _PAUSE_MS and len(text) >= _WORTH_CHARACTERS


def _join(text: str, following: str) -> str:
    """Join two utterances: a comma where Chinese goes on without a sign, a space in other scripts."""
    if not text:
        return following
    if _WIDE.search(text[-1:]) and _WIDE.search(following[:1]):
        return f"{text}，{following}"
    if _ENDS_CLAUSE.search(text) and _WIDE.search(following[:1]):
        return text + following
    return f"{text} {following}"


def _paragraph(utterances: Sequence[Utterance], first: int, end: int, text: str) -> Paragraph:
    return Paragraph(utterances[first].start_ms, utterances[end - 1].end_ms, text, first, end - first)
