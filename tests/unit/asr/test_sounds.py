"""How Chinese words sound, and what paragraphs are found by."""

import pytest

from services.asr.sounds import is_heard, pairs, sounds_like, syllables
from services.asr.transcript_terms import character_grams, terms_of


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("利率下降", " li lv xia jiang "),
        ("5G手机", " 5g shou ji "),
        ("银行，行走", " yin hang ， xing zou "),
        ("", "  "),
    ],
)
def test_a_text_has_syllables_and_keeps_what_is_no_chinese(text: str, spoken: str) -> None:
    assert syllables(text) == spoken


@pytest.mark.parametrize(
    ("text", "word"), [("我说力率下降", "利率"), ("这是不年锅", "不粘锅"), ("西安", "喜案")]
)
def test_words_of_the_same_sound_are_heard(text: str, word: str) -> None:
    assert sounds_like(syllables(text), word)


@pytest.mark.parametrize(
    ("text", "word"), [("方案", "翻案啊"), ("先生", "西安"), ("郭", "锅"), ("5g手机", "5G手机")]
)
def test_other_words_single_characters_and_mixed_words_are_not_heard(text: str, word: str) -> None:
    assert not sounds_like(syllables(text), word)


def test_only_two_or_more_chinese_characters_are_heard() -> None:
    assert [is_heard(word) for word in ("利率", "率", "利率a", "ab", "")] == [
        True,
        False,
        False,
        False,
        False,
    ]


def test_a_paragraph_is_found_by_characters_their_pairs_and_pairs_of_syllables() -> None:
    assert character_grams("利率 Ab") == {"利", "率", "利率", "a", "b", "ab"}
    assert pairs(" li lv xia ") == {"li lv", "lv xia"}
    assert terms_of("利率").grams == ["li lv", "利", "利率", "率"]
