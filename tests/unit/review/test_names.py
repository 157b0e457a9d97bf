"""Folding of names, spellings of seasons, and the curated lists."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.review import seeds
from services.review.fold import clean, fold, fold_city
from services.review.seasons import READY_TO_WEAR, collection_of, parse_season

COPENHAGENS = [
    *("København", unicodedata.normalize("NFD", "København"), "KØBENHAVN ", "Copenhagen", "哥本哈根"),
    *("Copenhagen Fashion Week", "  copenhagen\u200b  FASHION   week ", "哥本哈根时装周"),
    "Ｃｏｐｅｎｈａｇｅｎ",
]
MILANS = ["Milan", "Milano", "米兰", "米蘭", "Milan Fashion Week", "MILÁN"]


def city_of(text: str) -> str | None:
    """Return the seeded city that a text names."""
    owners = {alias: name for name, aliases in seeds.folded("cities", fold_city) for alias in aliases}
    return owners.get(fold_city(text))


@pytest.mark.parametrize("text", COPENHAGENS)
def test_every_spelling_of_copenhagen_is_one_city(text: str) -> None:
    assert city_of(text) == "Copenhagen"


@pytest.mark.parametrize("text", MILANS)
def test_every_spelling_of_milan_is_one_city(text: str) -> None:
    assert city_of(text) == "Milan"


def test_turkish_dotted_and_dotless_i_fold_to_one() -> None:
    assert fold("İstanbul") == fold("istanbul") == fold("ISTANBUL") == fold("ıstanbul")


def test_a_name_that_several_countries_have_is_not_guessed() -> None:
    assert city_of("Florence") is None
    assert city_of("Firenze") == "Florence, Italy"


def test_a_fashion_week_alone_is_kept() -> None:
    assert fold_city("Fashion Week") == "fashion week"


def test_kana_keep_their_voicing_and_thai_its_vowels() -> None:
    assert fold("ガ") != fold("カ")
    assert fold("กรุงเทพ") == "กรุงเทพ"


@pytest.mark.parametrize(
    "unseen",
    [
        "\u00ad", "\u034f", "\u061c", "\u115f", "\u180e", "\u200b", "\u200d", "\u202e", "\u2060", "\u2066",
        "\u2069", "\u206f", "\u3164", "\ufe0f", "\ufeff", "\uffa0", "\ufff9", "\U000e0020", "\U000e0100",
    ],
    ids=ascii,
)  # fmt: skip
def test_what_nobody_sees_makes_no_other_name(unseen: str) -> None:
    for text in (f"{unseen}Copenhagen{unseen}", f"Copen{unseen}hagen", f"Copenhagen {unseen} Fashion Week"):
        assert fold_city(text) == "copenhagen"
    assert fold(unseen) == ""


def test_a_name_keeps_the_variant_of_its_glyphs() -> None:
    assert clean("葛\U000e0100城") == "葛\U000e0100城"
    assert fold("葛\U000e0100城") == fold("葛城")


@given(st.text(max_size=40))
def test_folding_is_idempotent_and_blind_to_case_marks_of_form_and_spaces(text: str) -> None:
    folded = fold(text)
    assert fold(folded) == folded
    assert fold(f"  {text} ") == folded
    assert fold(unicodedata.normalize("NFD", text)) == folded
    assert fold(unicodedata.normalize("NFC", text)) == folded
    assert fold_city(fold_city(text)) == fold_city(text)
    assert clean(clean(text)) == clean(text)


@given(st.text(alphabet=st.characters(max_codepoint=0x24F), max_size=30))
def test_folding_is_blind_to_case_in_european_scripts(text: str) -> None:
    assert fold(text.upper()) == fold(text.lower()) or "ß" in text or "ŉ" in text


@pytest.mark.parametrize(
    "text",
    [
        *("FW26", "AW26", "F/W 26", "A/W '26", "fw 2026", "26FW", "FW2026/27", "Fall 2026", "Autumn 2026"),
        *("Fall-Winter 2026", "Fall 2026 Ready-to-Wear", "Fall 2026 RTW", "Autumn/Winter 2026-27"),
        *("Autumn/Winter 2026–2027", "AW 26/27", "2026秋冬", "秋冬2026", "2026年秋冬系列"),
        *("Automne-Hiver 2026", "Fall 2026 Collection", "Fall 2026 Womenswear", "Herbst/Winter 2026"),
        *("2026-27秋冬コレクション", "2026 가을/겨울"),
    ],
)
def test_every_spelling_of_fall_2026_is_one_season(text: str) -> None:
    season = parse_season(text)
    assert season is not None
    assert (season.code, season.name, season.line) == ("FW26", "Fall 2026", READY_TO_WEAR)


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("Fall 2026 Couture", "FW26", "Couture"),
        ("2026秋冬高级定制", "FW26", "Couture"),
        ("Fall 2026 Menswear", "FW26", "Menswear"),
        ("FW26 Men’s", "FW26", "Menswear"),
        ("Pre-Fall 2026", "PF26", READY_TO_WEAR),
        ("2026早秋", "PF26", READY_TO_WEAR),
        ("Resort 2026", "RS26", READY_TO_WEAR),
        ("Cruise 2026", "RS26", READY_TO_WEAR),
        ("2026早春度假系列", "RS26", READY_TO_WEAR),
        ("Spring/Summer 2026", "SS26", READY_TO_WEAR),
        ("SS26", "SS26", READY_TO_WEAR),
        ("2026春夏男装", "SS26", "Menswear"),
        ("Frühjahr/Sommer 2026", "SS26", READY_TO_WEAR),
        ("プレフォール 2026", "PF26", READY_TO_WEAR),
        ("2026リゾート", "RS26", READY_TO_WEAR),
        ("2026春夏メンズコレクション", "SS26", "Menswear"),
        ("Fall 1998 Haute Couture", "FW1998", "Couture"),
    ],
)
def test_other_seasons_and_lines_are_others(text: str, code: str, line: str) -> None:
    season = parse_season(text)
    assert season is not None
    assert (season.code, season.line) == (code, line)


@pytest.mark.parametrize(
    "text",
    [
        *("", "2026", "Fall", "FW26 SS26", "Fall 2026-28", "Holiday 2026", "FW26 Capsule", "FW6", "FW226"),
        *("wafw26", "springs 2026", "Fall 2026 Couture Menswear", "Spring 2025 Spring 2026"),
    ],
)
def test_what_no_table_knows_is_never_guessed(text: str) -> None:
    assert parse_season(text) is None


@pytest.mark.parametrize(
    ("collection", "season", "name"),
    [
        ("", "FW26", READY_TO_WEAR),
        ("", "Fall 2026 Couture", "Couture"),
        ("RTW", "FW26", READY_TO_WEAR),
        ("haute  couture", "FW26", "Couture"),
        ("Fall 2026 Menswear", "FW26", "Menswear"),
        ("Pre-Fall", "Pre-Fall 2026", READY_TO_WEAR),
        ("Fall 2025 Couture", "FW26", "Fall 2025 Couture"),
        (" Artisanal ", "FW26", "Artisanal"),
        ("", "Some Capsule", ""),
    ],
)
def test_a_collection_is_its_line_or_stays_as_written(collection: str, season: str, name: str) -> None:
    known = parse_season(season)
    assert collection_of(collection, known) == name
    assert collection_of(collection_of(collection, known), known) in {name, known.line if known else ""}


def test_the_curated_lists_are_long_enough_and_share_no_spelling() -> None:
    assert len(seeds.folded("cities", fold_city)) >= 100
    assert len(seeds.folded("brands", fold)) >= 300


def test_a_spelling_of_two_brands_is_refused_when_the_list_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "read", lambda _name: [["Dior", "CD"], ["Céline", "cd"]])
    with pytest.raises(ValueError, match="names both"):
        seeds.folded("brands", fold)
