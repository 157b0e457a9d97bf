"""The language of keyword groups, without a database."""

import sys

import pytest

from libs.common.keywords import fold, matches, parse


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("利率 债券 | 股票", [["利率", "债券"], ["股票"]]),
        ("利率,债券|股票", [["利率", "债券"], ["股票"]]),
        ("利率，债券｜股票", [["利率", "债券"], ["股票"]]),
        ("利率\u3000债券 ｜\u3000股票", [["利率", "债券"], ["股票"]]),
        ("  a\t b\n", [["a", "b"]]),
        ("a,,b, |", [["a", "b"]]),
        ("a a b", [["a", "b"]]),
        ("", []),
        (" , ｜|，\u3000", []),
        ("100%_\\", [["100%_\\"]]),
    ],
)
def test_text_becomes_groups_of_words(text: str, groups: list[list[str]]) -> None:
    assert parse(text) == groups


@pytest.mark.parametrize(
    ("keywords", "text", "found"),
    [
        ("", "anything", True),
        ("利率 债券", "债券的利率", True),
        ("利率 债券", "利率", False),
        ("利率 债券 | 股票", "股票涨了", True),
        ("KØBENHAVN", "københavn fashion week", True),
        ("istanbul", "İSTANBUL", True),
        ("ΟΔΟΣ", "οδος και οδός", True),
        ("οδοσ", "ΟΔΟΣ", True),
        ("Москва", "МОСКВА", True),
        ("straße", "STRAẞE", True),
        ("100%", "1000", False),
        ("a_c", "abc", False),
        ("a_c", "xA_Cx", True),
        ("\\", "a\\b", True),
        ("[a-z]+", "abc", False),
        ("[a-z]+", "x[A-Z]+", True),
    ],
)
def test_a_text_matches_when_all_words_of_one_group_are_in_it(keywords: str, text: str, found: bool) -> None:
    assert matches(parse(keywords), text) is found


EVERYTHING = "".join(map(chr, range(sys.maxunicode + 1)))


def test_folding_keeps_the_length_and_is_stable_for_every_character() -> None:
    folded = fold(EVERYTHING)
    assert len(folded) == len(EVERYTHING)
    assert fold(folded) == folded


def test_no_alphabet_with_cases_lies_beyond_the_table_of_variants() -> None:
    assert fold(EVERYTHING[0x1F000:]) == EVERYTHING[0x1F000:]
