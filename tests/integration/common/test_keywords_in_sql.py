"""The database finds by keyword groups exactly what ``matches`` finds, whatever its collation says."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import ARRAY, TableValuedAlias, Text, cast, column, func, literal, select, text

from libs.common.db import Database
from libs.common.keywords import matches, parse, to_sql

# Whatever means something to LIKE, to a regular expression, to the language itself or to case folding,
# beside letters that are the same or nearly so.
SHARP = "aAbBkK\u212akİiıIſsSßẞςσΣμµéÉe\u0301Øøæ利率债券１ａＡᾳᾼǅǆǄꭰᎠ𐐀𐐨"
MEANINGFUL = " ,|，｜\u3000\t%_\\^$.*+?()[]{}-:=!<>'\"/&~#"
ANY = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
CHARACTERS = st.one_of(st.sampled_from(SHARP), st.sampled_from(MEANINGFUL), ANY)
TEXTS = st.text(CHARACTERS, max_size=12)


def _rows(texts: list[str]) -> TableValuedAlias:
    """Return the texts as a table of ``words`` and their ``place``."""
    array = cast(literal(texts, ARRAY(Text)), ARRAY(Text))
    return (
        func.unnest(array)
        .table_valued(column("words", Text), with_ordinality="place", name="rows")
        .render_derived()
    )


async def _found(database: Database, keywords: str, texts: list[str]) -> list[bool]:
    """Ask the database about each text, in one query."""
    rows = _rows(texts)
    condition = to_sql(parse(keywords), [rows.c.words])
    async with database.begin() as session:
        return list(await session.scalars(select(condition).select_from(rows).order_by(rows.c.place)))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keywords=TEXTS, texts=st.lists(TEXTS, min_size=1, max_size=8))
@example(keywords="***:(?i)a", texts=["***:(?i)A", "a", "A"])
@example(keywords="(?i)a|\\m", texts=["(?I)a", "\\m", "m", "a"])
@example(keywords="100%", texts=["100%", "1000", "100"])
@example(keywords="K", texts=["\u212a", "k", "K"])
@example(keywords="\\_", texts=["\\_", "_", "\\"])
async def test_sql_and_memory_agree_on_any_words_and_texts(
    database: Database, keywords: str, texts: list[str]
) -> None:
    groups = parse(keywords)
    assert await _found(database, keywords, texts) == [matches(groups, each) for each in texts]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_sql_and_memory_agree_on_words_cut_from_the_text(
    database: Database, data: st.DataObject
) -> None:
    whole = data.draw(st.text(CHARACTERS, min_size=1, max_size=20))
    start = data.draw(st.integers(0, len(whole) - 1))
    word = whole[start : data.draw(st.integers(start + 1, len(whole)))]
    keywords = data.draw(st.sampled_from([word, word.upper(), word.lower(), word.swapcase()]))
    assert await _found(database, keywords, [whole]) == [matches(parse(keywords), whole)]


async def test_every_case_of_every_letter_is_found_by_every_other(database: Database) -> None:
    letters = [chr(code) for code in range(0x1F000) if chr(code).lower() != chr(code).upper()]
    letters = [letter for letter in letters if not 0xD800 <= ord(letter) < 0xE000]
    for start in range(0, len(letters), 100):
        batch = letters[start : start + 100]
        texts = sorted(
            {each for letter in batch for each in (letter.upper(), letter.lower(), letter.title())}
        )
        rows = _rows(texts)
        conditions = [to_sql([[letter]], [rows.c.words]) for letter in batch]
        async with database.begin() as session:
            answers = (await session.execute(select(*conditions).order_by(rows.c.place))).all()
        for each, answer in zip(texts, answers, strict=True):
            assert list(answer) == [matches([[letter]], each) for letter in batch]


async def test_a_word_may_be_in_any_column_and_an_empty_column_holds_none(database: Database) -> None:
    rows = text(
        "SELECT * FROM (VALUES ('Spring', 'Paris'), ('spring', NULL), ('x', 'SPRING IN PARIS')) AS t (a, b)"
    )
    table = rows.columns(column("a", Text), column("b", Text)).subquery()
    statement = select(table.c.a).where(to_sql(parse("spring paris"), [table.c.a, table.c.b]))
    async with database.begin() as session:
        assert list(await session.scalars(statement)) == ["Spring", "x"]


@pytest.mark.parametrize("collation", ["C", "POSIX", "default"])
async def test_the_collation_changes_nothing(database: Database, collation: str) -> None:
    statement = text("SELECT CAST(:words AS text) AS words").columns(column("words", Text))
    table = statement.bindparams(words="KØBENHAVN").subquery()
    found = select(to_sql(parse("københavn"), [table.c.words.collate(collation)]))
    async with database.begin() as session:
        assert await session.scalar(found) is True
