"""What a run chooses from, and the rules it chooses by: values without behaviour."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """An utterance; `index` is its position in the whole transcript."""

    index: int
    start_ms: int
    end_ms: int
    text: str


@dataclass(frozen=True)
class Subject:
    """A topic of the recording: its words, and the utterances `[first, end)` by index."""

    title: str
    summary: str
    keywords: tuple[str, ...]
    first: int
    end: int


@dataclass(frozen=True)
class Passage:
    """A paragraph: its text, and the utterances `[first, end)` by index."""

    text: str
    first: int
    end: int


@dataclass(frozen=True)
class Selection:
    """The part of a recording that a project works on.

    `utterances` is not empty and in order. `speech_before_end_ms` and `speech_after_start_ms` are where the
    speech next to the selection ends and begins (0 and `duration_ms` when there is none).
    """

    utterances: tuple[Said, ...]
    topics: tuple[Subject, ...]
    paragraphs: tuple[Passage, ...]
    duration_ms: int
    prompt: str = ""
    keywords: str = ""
    speech_before_end_ms: int = 0
    speech_after_start_ms: int = 0


@dataclass(frozen=True)
class Rules:
    """Lengths that choosing and padding go by, in milliseconds; see `SlicingWorkerSettings`."""

    merge_gap_ms: int = 500
    lead_ms: int = 100
    tail_ms: int = 300
    shortest_ms: int = 5000
    longest_piece_ms: int = 180_000


LOCAL = "local"


@dataclass(frozen=True)
class Words:
    """What stands beside a clip: a title of 2 to 12 characters, a description of at most 128, 2 to 6 topics.

    `source` is what wrote them: `local`, or `llm/` and the model's name.
    """

    title: str
    description: str
    topics: tuple[str, ...]
    source: str = LOCAL


@dataclass(frozen=True)
class Planned:
    """A clip to cut: its span, what is said in it, and the topic it is (None: chosen otherwise).

    `words` is None as long as nobody has written any.
    """

    start_ms: int
    end_ms: int
    sentences: tuple[str, ...]
    topic: Subject | None
    words: Words | None = None

    @property
    def text(self) -> str:
        """All that is said in it."""
        return join_text(self.sentences)


def join_text(parts: tuple[str, ...] | list[str]) -> str:
    """Join utterances: Chinese without a space, words of Latin script with one."""
    joined = ""
    for part in parts:
        glued = joined and joined[-1].isascii() and part[:1].isascii() and not joined[-1].isspace()
        joined += f" {part}" if glued else part
    return joined
