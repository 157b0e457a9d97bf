"""How an article's key is named to people."""

from __future__ import annotations

import pytest
from frontrow.ingest.v1.gallery_pb2 import GALLERY_KIND_RUNWAY as RUNWAY
from frontrow.ingest.v1.gallery_pb2 import GALLERY_KIND_STREET_SNAP as STREET
from frontrow.ingest.v1.gallery_pb2 import Gallery

from services.ingest.explain import key_words


@pytest.mark.parametrize(
    ("gallery", "said"),
    [
        (Gallery(kind=STREET, city="Copenhagen", year=2026, month=2), "Copenhagen 2026-02"),
        (Gallery(kind=STREET, city="Copenhagen", year=2026), "Copenhagen 2026"),
        (Gallery(kind=STREET, city="Copenhagen"), ""),
        (Gallery(kind=STREET, year=2026, month=2), ""),
        (
            Gallery(kind=RUNWAY, brand="Gucci", season_code="FW26", collection="Menswear"),
            "Gucci FW26 Menswear",
        ),
        (Gallery(kind=RUNWAY, brand="Gucci", season_code="FW26"), "Gucci FW26"),
        (Gallery(kind=RUNWAY, brand="Gucci"), ""),
    ],
)
def test_a_key_is_said_as_far_as_it_is_whole(gallery: Gallery, said: str) -> None:
    assert key_words(gallery) == said
