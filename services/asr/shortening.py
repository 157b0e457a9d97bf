"""Bring a text within a bound without hiding that something is missing."""

from __future__ import annotations

import re

_SENTENCE_ENDS = "。！？!?；;."
_EDGES = " \t\r\n，。！？、；：,.!?;:…-—~·「」『』“”‘’\"'()（）《》【】[]"
_SPACES = re.compile(r"\s+")
_LEFT_OUT = " … "
_STRETCHES = 6


def shortened(text: str, most: int) -> str:
    """Return the beginning of `text` in at most `most` characters: whole sentences, else an ellipsis."""
    text = _SPACES.sub(" ", text).strip()
    if len(text) <= most:
        return text
    head = text[:most]
    end = max(head.rfind(mark) for mark in _SENTENCE_ENDS)
    if end >= most // 3:
        return head[: end + 1]
    return head[:-1].rstrip(_EDGES) + "…"


def sampled(text: str, most: int) -> str:
    """Return `text` in at most `most` characters: of a longer one, even stretches from beginning to end.

    What is left out between them is marked by " … ".
    """
    if len(text) <= most:
        return text
    length = (most - len(_LEFT_OUT) * (_STRETCHES - 1)) // _STRETCHES
    room = len(text) - length
    starts = [room * number // (_STRETCHES - 1) for number in range(_STRETCHES)]
    return _LEFT_OUT.join(text[start : start + length] for start in starts)
