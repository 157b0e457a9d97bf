"""Items for the two kinds of galleries. A dict, or any other item with the same fields, does as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

RUNWAY = "runway"
STREET_SNAP = "street_snap"


@dataclass
class PictureItem:
    """One picture: its absolute address, and the text beside it."""

    url: str
    caption: str = ""


@dataclass(kw_only=True)
class _Gallery:
    title: str
    source: str
    """The site, e.g. `vogue`: lower-case, at most 32 characters."""
    source_url: str
    """The article's own address, by which it is taken once."""
    images: Sequence[PictureItem | str] = field(default_factory=list)
    """The pictures in the article's order."""
    job_id: str = ""
    """Set by the pipeline: the job to ask about."""


@dataclass(kw_only=True)
class RunwayGallery(_Gallery):
    """A show. Brand, season and collection as the site writes them: Frontrow knows their other names."""

    brand: str
    season_code: str
    collection: str = ""
    kind: str = field(default=RUNWAY, init=False)


@dataclass(kw_only=True)
class StreetSnapGallery(_Gallery):
    """A street-style article. Leave year and month out: the pipeline fills in the crawl's own (UTC)."""

    city: str
    year: int | None = None
    month: int | None = None
    kind: str = field(default=STREET_SNAP, init=False)
