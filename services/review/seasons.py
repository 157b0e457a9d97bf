"""Read the usual spellings of a season: one table, nothing guessed (domain.md 4.6).

`FW26`, `AW26`, `Fall 2026 Ready-to-Wear`, `Autumn/Winter 2026-27` and `2026秋冬` are one season; Resort
and Cruise are one; Couture, Menswear and Bridal are lines of a season, Pre-Fall and Resort are seasons.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from services.review.fold import clean, fold

READY_TO_WEAR = "Ready-to-Wear"

_SEASONS = {
    "SS": (
        "ss",
        "s/s",
        "s s",
        "spring",
        "summer",
        "spring summer",
        "printemps ete",
        "primavera estate",
        "primavera verano",
        "fruhjahr sommer",
        "fruhling sommer",
        "봄 여름",
        "春夏",
        "春季",
        "夏季",
        "春夏季",
    ),
    "FW": (
        "fw",
        "f/w",
        "f w",
        "aw",
        "a/w",
        "a w",
        "fall",
        "autumn",
        "winter",
        "fall winter",
        "autumn winter",
        "automne hiver",
        "autunno inverno",
        "otono invierno",
        "herbst winter",
        "가을 겨울",
        "秋冬",
        "秋季",
        "冬季",
        "秋冬季",
    ),
    "PF": ("pf", "pre fall", "prefall", "pre autumn", "早秋", "初秋", "プレフォール"),
    "RS": (
        *("rs", "resort", "cruise", "resort cruise", "croisiere", "pre spring", "早春", "度假", "早春度假"),
        *("リゾート", "クルーズ"),
    ),
}
_NAMES = {"SS": "Spring", "FW": "Fall", "PF": "Pre-Fall", "RS": "Resort"}
_LINES = {
    READY_TO_WEAR: (
        "ready to wear",
        "rtw",
        "pret a porter",
        "womenswear",
        "womens",
        "women's",
        "women",
        "成衣",
        "女装",
        "女裝",
        "女装成衣",
    ),
    "Couture": ("couture", "haute couture", "高级定制", "高級訂製", "高定", "高级订制", "オートクチュール"),
    "Menswear": (
        "menswear",
        "mens",
        "men's",
        "men",
        "mens ready to wear",
        "男装",
        "男裝",
        "男装成衣",
        "メンズ",
    ),
    "Bridal": ("bridal", "bridal wear", "婚纱", "婚紗"),
}
_FILLERS = ("collection", "collections", "season", "系列", "季", "年", "コレクション")


def _pattern(phrases: dict[str, tuple[str, ...]]) -> tuple[str, dict[str, str]]:
    """Return an alternation, longest phrase first, and each phrase's meaning; `-`, `/` and spaces are one."""
    meaning = {phrase: value for value, spellings in phrases.items() for phrase in spellings}
    ordered = sorted(meaning, key=len, reverse=True)
    bounded = [_bounded(phrase) for phrase in ordered]
    return "|".join(bounded), meaning


def _bounded(phrase: str) -> str:
    words = r"[\s/-]+".join(re.escape(word) for word in phrase.split(" "))
    # Latin words end at a letter's edge (a digit may follow: `fw26`); Chinese has no spaces.
    return rf"(?<![a-z]){words}(?![a-z])" if phrase[0].isascii() else words


_SEASON_PATTERN, _SEASON_OF = _pattern(_SEASONS)
_LINE_PATTERN, _LINE_OF = _pattern(_LINES)
_FILLER_PATTERN, _ = _pattern({"": _FILLERS})
_TOKEN = re.compile(
    rf"(?P<line>{_LINE_PATTERN})|(?P<season>{_SEASON_PATTERN})|(?P<filler>{_FILLER_PATTERN})"
    r"|(?P<year>(?<!\d)(?:'?\d\d|(?:19|20)\d\d)(?!\d))(?:\s*[-/]\s*(?P<next>(?:20)?\d\d)(?!\d))?"
    r"|(?P<gap>[\s,./()|-]+)"
)


@dataclass(frozen=True)
class SeasonText:
    """What a season's text names.

    `code` like `FW26`, `name` like `Fall 2026`, `line` the line beside it (`Ready-to-Wear` when none is).
    """

    code: str
    name: str
    line: str


@dataclass
class _Words:
    seasons: set[str]
    lines: set[str]
    years: list[int]


def parse_season(text: str) -> SeasonText | None:
    """Return what the text names, or None when any word of it is outside the tables."""
    words = _read(text)
    if words is None or len(words.seasons) != 1 or len(words.years) != 1 or len(words.lines) > 1:
        return None
    season, year = next(iter(words.seasons)), words.years[0]
    code = f"{season}{year % 100:02d}" if 2000 <= year < 2100 else f"{season}{year}"
    return SeasonText(code, f"{_NAMES[season]} {year}", next(iter(words.lines), READY_TO_WEAR))


def collection_of(collection: str, season: SeasonText | None) -> str:
    """Return a collection's name: an empty one takes the season's line, a spelling of a line its usual name.

    A collection that only repeats the season (`Fall 2026 Couture`, `Pre-Fall`) is its line. Anything else
    stays as written. Idempotent.
    """
    written = clean(collection)
    if not written:
        return season.line if season else ""
    words = _read(written)
    if words is None or len(words.lines) > 1 or len(words.years) > 1:
        return written
    if words.seasons or words.years:
        return _line_if_it_repeats(words, season) or written
    return next(iter(words.lines), written)


def _line_if_it_repeats(words: _Words, season: SeasonText | None) -> str | None:
    if season is None or len(words.seasons) > 1:
        return None
    repeats = all(season.code.startswith(s) for s in words.seasons) and all(
        season.name.endswith(str(y)) for y in words.years
    )
    return next(iter(words.lines), season.line) if repeats else None


def _read(text: str) -> _Words | None:
    """Return the words of the text by table, or None when something is left over."""
    folded = fold(text)
    words, position = _Words(set(), set(), []), 0
    while position < len(folded):
        token = _TOKEN.match(folded, position)
        if token is None:
            return None
        position = token.end()
        if token["season"]:
            words.seasons.add(_SEASON_OF[_spaced(token["season"], _SEASON_OF)])
        elif token["line"]:
            words.lines.add(_LINE_OF[_spaced(token["line"], _LINE_OF)])
        elif token["year"]:
            year = _year(token["year"])
            if token["next"] and _year(token["next"]) != year + 1:
                return None
            words.years.append(year)
    return words


def _spaced(phrase: str, known: dict[str, str]) -> str:
    return phrase if phrase in known else re.sub(r"[\s/-]+", " ", phrase)


def _year(digits: str) -> int:
    number = int(digits.strip("'"))
    return number if number >= 100 else 2000 + number
