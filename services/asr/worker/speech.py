"""What the worker's steps hand to one another: words, utterances, parts."""

from collections.abc import Callable
from dataclasses import dataclass

OnShare = Callable[[float], None]
"""Told the share of a step that is done, 0 to 1."""


def ignore_share(_share: float) -> None:
    """Be an OnShare for those who don't want to know."""


# Utterances never grow beyond this, so that a paragraph (at most 200 characters) can always hold one whole.
MAX_UTTERANCE_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Word:
    """A word as the engine wrote and timed it, on the canonical clock."""

    text: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of speech as an engine returns it; no words when the engine gives none."""

    start_ms: int
    end_ms: int
    text: str
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Utterance:
    """A stretch of speech without a long gap; `raw_text` is the engine's text, `text` is in one script."""

    start_ms: int
    end_ms: int
    text: str
    raw_text: str
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A chunk of the recording, in milliseconds."""

    index: int
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Part:
    """A chunk's result; `made_with` names the settings that it was heard with, '' when nobody noted them."""

    span: Span
    engine: str
    language: str
    made_with: str
    utterances: tuple[Utterance, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A readable paragraph: utterances `first` to `first + count - 1`."""

    start_ms: int
    end_ms: int
    text: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its summary: utterances `first` to `first + count - 1`."""

    title: str
    summary: str
    keywords: tuple[str, ...]
    start_ms: int
    end_ms: int
    first: int
    count: int
