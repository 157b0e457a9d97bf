"""One crawl: its time, taken once, and what makes a gallery of an item."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from frontrow.client.scrapy.items import RUNWAY, STREET_SNAP
from frontrow.ingest.v1 import gallery_pb2
from itemadapter import ItemAdapter

_KINDS = {RUNWAY: gallery_pb2.GALLERY_KIND_RUNWAY, STREET_SNAP: gallery_pb2.GALLERY_KIND_STREET_SNAP}
_TEXTS = {
    RUNWAY: ("title", "source", "source_url", "brand", "season_code", "collection"),
    STREET_SNAP: ("title", "source", "source_url", "city"),
}


def is_gallery(item: Any) -> bool:
    """Tell whether an item is one of the two kinds of galleries: its `kind` says so."""
    return ItemAdapter.is_item(item) and ItemAdapter(item).get("kind") in _KINDS


@dataclass(frozen=True)
class Batch:
    """A crawl from its start to its end. `began` is in UTC: a crawl over midnight has one month."""

    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    def gallery(self, item: Any) -> gallery_pb2.Gallery:
        """Make the gallery of an item; a street snap without year and month gets the crawl's own.

        Raises:
            ValueError, TypeError: a field holds what no gallery can hold.
        """
        adapter = ItemAdapter(item)
        kind = adapter["kind"]
        gallery = gallery_pb2.Gallery(kind=_KINDS[kind], images=_images(adapter.get("images") or ()))
        for name in _TEXTS[kind]:
            setattr(gallery, name, adapter.get(name) or "")
        if kind == STREET_SNAP:
            year, month = adapter.get("year"), adapter.get("month")
            if year is None and month is None:
                year, month = self.began.year, self.began.month
            gallery.year, gallery.month = year or 0, month or 0
        return gallery

    def request_id(self, gallery: gallery_pb2.Gallery) -> str:
        """Return the id under which this crawl submits an article, however often it comes across it.

        Another crawl has other ids: that the article is known is then for Frontrow to find out, and to tell.
        So has a named crawl that goes on in another month: what it submits is another gallery then, which one
        id can't stand for.
        """
        article: tuple[str, ...] = (str(gallery.kind), gallery.source, gallery.source_url)
        if gallery.year or gallery.month:
            article = (*article, f"{gallery.year}-{gallery.month}")
        if not gallery.source_url:
            article = ("", hashlib.sha256(gallery.SerializeToString(deterministic=True)).hexdigest(), "")
        digest = hashlib.sha256("\n".join((self.name, *article)).encode())
        return f"scrapy-{digest.hexdigest()[:40]}"


def _images(found: Iterable[Any]) -> list[gallery_pb2.GalleryImage]:
    images = []
    for position, picture in enumerate(found, start=1):
        if isinstance(picture, str):
            picture = {"url": picture}  # noqa: PLW2901 - an address alone is a picture without a caption
        adapter = ItemAdapter(picture)
        images.append(
            gallery_pb2.GalleryImage(
                url=adapter["url"], caption=adapter.get("caption") or "", position=position
            )
        )
    return images
