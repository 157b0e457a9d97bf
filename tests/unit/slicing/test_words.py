"""The words of a clip."""

import pytest

from services.asr.slicing import words
from services.asr.slicing.selection import Planned, Subject
from tests.unit.slicing.build import SENTENCES, topic


def clip(*sentences: str, about: Subject | None = None) -> Planned:
    return Planned(0, 1000, sentences or SENTENCES[3:6], about)


@pytest.mark.parametrize(
    "title",
    [
        "",
        "锅",
        "不粘锅",
        "今天推荐的这款三层复合钢结构不粘锅的价格",
        "New Autumn Collection Live",
        "，。！",
        "a" * 40,
    ],
)
def test_a_title_has_two_to_twelve_characters(title: str) -> None:
    made = words.title(clip(about=topic(title, 0, 3)), 0)
    assert 2 <= len(made) <= 12
    assert made == made.strip("，。！ ")


def test_a_title_ends_with_a_whole_word() -> None:
    assert words.title(clip("最近的市场利率和国债收益率都在下降"), 0) == "最近的市场利率和国债"


def test_a_clip_of_hardly_a_word_gets_a_number_as_its_title() -> None:
    assert words.title(clip("嗯"), 4) == "片段5"


@pytest.mark.parametrize("text", ["短。", "很长的一句话，" * 60, "一句话说完了。" * 40, "word " * 100])
def test_a_description_has_at_most_128_characters(text: str) -> None:
    made = words.description(clip(text))
    assert 1 <= len(made) <= 128
    assert words.description(clip(about=topic("锅", 0, 3, summary=text))) == made


def test_a_long_description_ends_with_a_sentence() -> None:
    assert words.description(clip("今天的锅很好用。" * 30)).endswith("用。")


def test_two_to_six_topics_are_named_without_repeats() -> None:
    made = words.topics(clip(about=topic("锅", 0, 3, keywords=("不粘锅", "导热", "不粘锅"))))
    assert made[:2] == ["不粘锅", "导热"]
    assert 2 <= len(made) <= 6
    assert len(set(made)) == len(made)


def test_words_of_little_meaning_are_no_topics() -> None:
    assert {"我们", "的", "而且"}.isdisjoint(words.content_words("".join(SENTENCES)))
