"""The words of a clip: its title, its description and what it is about (domain.md 2.10)."""

from __future__ import annotations

import re
from collections.abc import Iterable

import rjieba

from services.asr.shortening import shortened
from services.asr.slicing.selection import Planned, Words

TITLE_LEAST, TITLE_MOST, DESCRIPTION_MOST, TOPICS_LEAST, TOPICS_MOST = 2, 12, 128, 2, 6
TOPIC_CHARACTERS = 24

# Nouns of all kinds, nouns made of verbs and adjectives, idioms and Latin words carry what a text is about.
_TELLING = ("n", "vn", "an", "i", "l", "j", "eng")
_EDGES = " \t\r\n，。！？、；：,.!?;:…-—~·「」『』“”‘’\"'()（）《》【】[]"
_SPACES = re.compile(r"\s+")


def content_words(text: str) -> list[str]:
    """Return the telling words of `text`, the weightiest first: often said, long, said early."""
    weights: dict[str, float] = {}
    for word, tag in rjieba.tag(text, True):
        if len(word) > 1 and (tag.startswith("n") or tag in _TELLING):
            weights[word] = weights.get(word, 0.0) + len(word)
    return sorted(weights, key=lambda word: -weights[word])


def local_words(clip: Planned, position: int) -> Words:
    """Write the words of the clip at `position` (from 0) without a language model."""
    return Words(title(clip, position), description(clip), tuple(topics(clip)))


def bounded(title: str, description: str, about: Iterable[str], otherwise: Words) -> Words | None:
    """Bring what a model wrote within bounds, or return None when there is no title or no description.

    Topics that it left out are taken from `otherwise`.
    """
    head, text = cut_between_words(title, TITLE_MOST), shortened(description, DESCRIPTION_MOST)
    if len(head) < TITLE_LEAST or not text:
        return None
    named = [_SPACES.sub(" ", topic).strip(_EDGES)[:TOPIC_CHARACTERS] for topic in about]
    named = list(dict.fromkeys(topic for topic in named if topic))[:TOPICS_MOST]
    if len(named) < TOPICS_LEAST:
        named = list(dict.fromkeys([*named, *otherwise.topics]))[:TOPICS_MOST]
    return Words(head, text, tuple(named))


def title(clip: Planned, position: int) -> str:
    """Return a title of 2 to 12 characters: the topic's, else a telling sentence, cut between words."""
    sources = [clip.topic.title] if clip.topic else []
    sources += [*_by_weight(clip.sentences), "".join(content_words(clip.text)[:3])]
    for source in sources:
        cut = cut_between_words(source, TITLE_MOST)
        if len(cut) >= TITLE_LEAST:
            return cut
    return f"片段{position + 1}"


def _by_weight(sentences: Iterable[str]) -> list[str]:
    """Return the sentences, those with the longest telling words first."""
    return sorted(sentences, key=lambda text: -sum(map(len, content_words(text)[:3])))


def cut_between_words(text: str, most: int) -> str:
    """Return the beginning of `text` that has at most `most` characters and ends with a whole word."""
    clean = _SPACES.sub(" ", text).strip(_EDGES)
    if len(clean) <= most:
        return clean
    kept = ""
    for word in rjieba.cut(clean):
        if len(kept) + len(word) > most:
            break
        kept += word
    # one single over-long word is cut all the same
    return kept.strip(_EDGES) or clean[:most].strip(_EDGES)


def description(clip: Planned) -> str:
    """Return what the clip is about in at most 128 characters: the topic's summary, else what is said."""
    return shortened((clip.topic.summary if clip.topic else "") or clip.text, DESCRIPTION_MOST)


def topics(clip: Planned) -> list[str]:
    """Return 2 to 6 words that the clip is about; fewer only when hardly a word is said in it."""
    candidates = [*(clip.topic.keywords if clip.topic else ()), *content_words(clip.text)]
    words = list(dict.fromkeys(w.strip(_EDGES) for w in candidates if w.strip(_EDGES)))
    if len(words) < TOPICS_LEAST:
        more = (word.strip(_EDGES) for word in rjieba.cut(clip.text))
        words = list(dict.fromkeys([*words, *sorted(filter(None, more), key=len, reverse=True)]))
        return words[:TOPICS_LEAST]
    return words[:TOPICS_MOST]
