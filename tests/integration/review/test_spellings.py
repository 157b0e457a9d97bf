"""Spellings of one key end in one official page, from intake to publication (domain.md 4.6)."""

from __future__ import annotations

import unicodedata

import pytest
from frontrow.review.v1 import intake_service_pb2 as intake

from tests.integration.review.gallery import RUNWAY, Gallery, unique

COPENHAGEN = (
    "København",
    unicodedata.normalize("NFD", "København"),
    "KØBENHAVN ",
    "Copenhagen",
    "哥本哈根",
    "Copenhagen Fashion Week",
)
FALL = ("FW26", "AW26", "Fall 2026 Ready-to-Wear", "Autumn/Winter 2026-27", "2026秋冬")
OTHERS = ("Fall 2026 Couture", "Fall 2026 Menswear", "Pre-Fall 2026", "Spring 2026", "FW27")


@pytest.mark.parametrize("spellings", [COPENHAGEN, ("İstanbul", "istanbul", "ISTANBUL", "Istanbul")])
async def test_every_spelling_of_a_city_joins_one_album_and_meets_it(
    gallery: Gallery, spellings: tuple[str, ...]
) -> None:
    names = [unique("spelled") for _ in spellings]
    drafts = [
        await gallery.street(spelling, 2031, 2, [name])
        for spelling, name in zip(spellings, names, strict=True)
    ]
    replies = [await gallery.approve(draft) for draft in drafts]
    assert len({reply.official_id for reply in replies}) == 1
    assert await gallery.album(replies[0].official_id) == names
    for spelling in spellings:
        city = intake.StreetSnapTexts(city=spelling, year=2031, month=2)
        found = await gallery.intake.FindOfficial(intake.FindOfficialRequest(job_id="asks", street_snap=city))
        assert found.official_id == replies[0].official_id
    # what was written stays as it was written
    written = [(await gallery.get(draft)).street_snap.city for draft in drafts]
    assert written == list(spellings)


async def test_every_spelling_of_a_season_joins_one_show_and_its_other_lines_do_not(gallery: Gallery) -> None:
    names = [unique("look") for _ in FALL]
    drafts = [
        await gallery.runway("Lanvin", season, "", [name]) for season, name in zip(FALL, names, strict=True)
    ]
    replies = [await gallery.approve(draft, RUNWAY) for draft in drafts]
    assert len({reply.official_id for reply in replies}) == 1
    assert await gallery.show(replies[0].official_id) == names
    others = [await gallery.runway("Lanvin", season, "", [unique("other")]) for season in OTHERS]
    shows = {(await gallery.approve(draft, RUNWAY)).official_id for draft in others}
    assert len(shows) == len(OTHERS)
    assert replies[0].official_id not in shows


async def test_a_season_that_no_table_knows_is_flagged_and_joins_nothing(gallery: Gallery) -> None:
    known = await gallery.runway("Rochas", "FW26", "", [unique("known")])
    show = (await gallery.approve(known, RUNWAY)).official_id
    unknown = await gallery.runway("Rochas", "Collection of the Long Night", "", [unique("unknown")])
    draft = await gallery.get(unknown, RUNWAY)
    assert not draft.runway.season_known
    assert draft.runway.season == "Collection of the Long Night"
    assert (await gallery.approve(unknown, RUNWAY)).official_id != show


async def test_articles_of_one_crawl_keep_its_month_whatever_the_day_they_come_in(gallery: Gallery) -> None:
    """The crawl's own month counts, long over or still to come: no server looks at its clock."""
    for year, month in ((2024, 1), (2199, 12)):
        city = unique("Midnight")
        drafts = [await gallery.street(city, year, month, [unique("night")]) for _ in range(2)]
        pages = {(await gallery.approve(draft)).official_id for draft in drafts}
        assert len(pages) == 1
        assert (await gallery.get(drafts[1])).subtitle == f"{city} · {year}-{month:02d}"
