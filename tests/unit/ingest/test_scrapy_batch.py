"""What the Scrapy pipeline makes of items: one time for a crawl, one id for an article."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from frontrow.client.scrapy import PictureItem, RunwayGallery, StreetSnapGallery
from frontrow.client.scrapy.batch import Batch, is_gallery
from frontrow.ingest.v1 import gallery_pb2

STREET = StreetSnapGallery(
    title="街拍", source="theimpression", source_url="https://s.example/a", city="Copenhagen",
    images=["https://s.example/1.jpg", PictureItem("https://s.example/2.jpg", "bridge")],
)  # fmt: skip


def test_a_crawl_over_midnight_of_a_months_last_day_has_one_month() -> None:
    batch = Batch(began=datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC))
    found = [batch.gallery(STREET) for _ in range(2)]
    assert {(gallery.year, gallery.month) for gallery in found} == {(2026, 2)}
    assert Batch().began.tzinfo is UTC


def test_a_year_that_the_spider_says_itself_is_taken_as_it_is() -> None:
    said = replace(STREET, year=2024, month=8)
    assert (Batch().gallery(said).year, Batch().gallery(said).month) == (2024, 8)
    unknown = replace(STREET, year=0, month=0)
    assert (Batch().gallery(unknown).year, Batch().gallery(unknown).month) == (0, 0)


def test_pictures_keep_their_order_and_may_be_addresses_alone() -> None:
    found = [(i.url, i.caption, i.position) for i in Batch().gallery(STREET).images]
    assert found == [("https://s.example/1.jpg", "", 1), ("https://s.example/2.jpg", "bridge", 2)]


def test_an_article_has_one_id_in_a_crawl_and_another_in_the_next() -> None:
    batch, later = Batch(), Batch()
    ids = {batch.request_id(batch.gallery(replace(STREET, title=title))) for title in ("a", "b")}
    assert len(ids) == 1
    assert later.request_id(later.gallery(STREET)) not in ids
    assert Batch("named").request_id(batch.gallery(STREET)) == Batch("named").request_id(
        batch.gallery(STREET)
    )


def test_a_named_crawl_that_goes_on_in_another_month_submits_under_another_id() -> None:
    before, after = (Batch("named", datetime(2026, month, 28, tzinfo=UTC)) for month in (2, 3))

    def ids(item: object) -> set[str]:
        return {batch.request_id(batch.gallery(item)) for batch in (before, after)}

    assert len(ids(STREET)) == 2
    assert len(ids(replace(STREET, source_url=""))) == 2
    assert len(ids(replace(STREET, year=2024, month=8))) == 1
    runway = RunwayGallery(title="t", source="v", source_url="u", brand="Gucci", season_code="FW26")
    assert len(ids(runway)) == 1


def test_items_without_an_article_address_are_told_apart_by_what_they_hold() -> None:
    batch = Batch()
    one, two = (replace(STREET, source_url="", title=title) for title in ("a", "b"))
    ids = {batch.request_id(batch.gallery(item)) for item in (one, two, replace(one))}
    assert len(ids) == 2


def test_other_items_are_no_galleries() -> None:
    runway = RunwayGallery(title="t", source="v", source_url="u", brand="Gucci", season_code="FW26")
    assert Batch().gallery(runway).kind == gallery_pb2.GALLERY_KIND_RUNWAY
    assert [is_gallery(item) for item in (runway, STREET, {"kind": "video"}, {}, object())] == [
        True, True, False, False, False,
    ]  # fmt: skip
    with pytest.raises(TypeError):
        Batch().gallery(replace(runway, images=[17]))
