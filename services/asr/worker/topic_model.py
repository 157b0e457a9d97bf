"""The local method of finding topics: pure functions of texts and their vectors."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from services.asr.worker.segmentation import Vectors, boundaries

_SHORTEST_SECONDS = 20.0
# In long recordings nobody looks for topics of twenty seconds.
_SHORTEST_OF_LONG_SECONDS = 60.0
_LONGEST_SECONDS = 15 * 60.0
# Measured on clauses with up to 30 % of their characters wrong: 1.0 to 1.4 find the right number of topics,
# and single utterances as units do better (Pk 0.01 to 0.11) than units of ten seconds (0.24 to 0.38).
_PENALTY = 1.2
_SUMMARY_CHARACTERS = 200
_KEYWORDS = 6
# Words that every live room is full of.
_STOP = frozenset(
    {
        "大家", "朋友", "时候", "今天", "现在", "东西", "问题", "没有", "可以", "就是", "这个", "那个",
        "我们", "你们", "他们", "直播间", "直播", "晚上", "事情", "一下",
    }
)  # fmt: skip

Tagged = Sequence[tuple[str, str]]


def topics(
    texts: Sequence[str], seconds: Sequence[float], vectors: Vectors, tagged: Sequence[Tagged]
) -> list[dict[str, object]]:
    """Return each topic's `first`, `count`, `keywords` and `summary`; topics cover all texts in order.

    `seconds` is how long each text lasts up to the next one; `tagged` are its words with their kinds.
    """
    shortest = min(max(sum(seconds) / 60, _SHORTEST_SECONDS), _SHORTEST_OF_LONG_SECONDS)
    starts = boundaries(vectors, seconds, shortest, _LONGEST_SECONDS, penalty=_PENALTY)
    ranges = list(zip(starts, [*starts[1:], len(texts)], strict=True))
    words = [keyword_counts(tagged[start:end]) for start, end in ranges]
    spread = spread_of(words)
    return [
        {
            "first": start,
            "count": end - start,
            "keywords": ranked(counts, spread),
            "summary": nearest_sentences(texts[start:end], vectors[start:end]),
        }
        for (start, end), counts in zip(ranges, words, strict=True)
    ]


def keyword_counts(texts: Sequence[Tagged]) -> Counter[str]:
    """Count the words that may be keywords: names and things, not verbs, not what every live room says."""
    counts: Counter[str] = Counter()
    for word, tag in chain.from_iterable(texts):
        if len(word) > 1 and word not in _STOP and tag.startswith(("n", "eng", "vn")):
            counts[word] += 1
    return counts


def spread_of(counts_of_topics: Sequence[Counter[str]]) -> Counter[str]:
    """Count in how many topics each word occurs; under NUL, how many topics there are."""
    spread: Counter[str] = Counter()
    for counts in counts_of_topics:
        spread.update(counts.keys())
    spread["\0"] = len(counts_of_topics)
    return spread


def ranked(counts: Counter[str], spread: Counter[str]) -> list[str]:
    """Return a topic's keywords: frequent in it, rare in the others."""
    total = spread["\0"]
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
