"""Where a draft belongs: its key's texts as written, what they mean, and the key they make (domain.md 4.6).

A place is made from texts by `repository_vocabulary` or from a stored row by `repository_draft`; the
promotion key comes from it alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from services.review.fold import fold
from services.review.keys import RunwayKey, StreetKey, vocabulary_lock_id

Name = tuple[int | str | None, int | str | None]


@dataclass(frozen=True)
class RunwayTexts:
    """The key texts of a runway show, raw as they were written."""

    brand: str
    season: str
    collection: str


@dataclass(frozen=True)
class StreetTexts:
    """The key texts of a street-snap album, raw as they were written; 0 is an unknown year or month."""

    city: str
    year: int
    month: int


@dataclass(frozen=True)
class RunwayPlace:
    """A runway draft's place. Ids are None where the text is empty; roots are the canonical ones."""

    texts: RunwayTexts
    brand_id: int | None
    brand_root: int | None
    brand_name: str
    season_code: str | None
    season_root: str | None
    season_known: bool
    collection_name: str

    @property
    def key(self) -> RunwayKey | None:
        """Return the promotion key, or None while a part is missing (domain.md 3.7)."""
        if self.brand_root is None or self.season_root is None:
            return None
        return RunwayKey(self.brand_root, self.season_root, fold(self.collection_name))

    @property
    def missing(self) -> list[str]:
        """Return the fields that an editor must fill in before approval."""
        parts = {"runway.brand": self.brand_id, "runway.season": self.season_code}
        return [field for field, value in parts.items() if value is None]

    @property
    def subtitle(self) -> str:
        """Return the second line of a card; missing parts are left out."""
        parts = (self.brand_name or self.texts.brand, self.season_root or "", self.collection_name)
        return " · ".join(part for part in parts if part)

    def columns(self) -> dict[str, object]:
        """Return the place as columns of the draft."""
        return {
            "brand": self.texts.brand,
            "brand_id": self.brand_id,
            "season": self.texts.season,
            "season_code": self.season_code,
            "collection": self.texts.collection,
            "collection_name": self.collection_name,
            "collection_key": fold(self.collection_name),
        }

    def names(self) -> dict[str, Name]:
        """Return the names of the place by table, each with the canonical one that it stands for."""
        return {
            "brands": (self.brand_id, self.brand_root),
            "seasons": (self.season_code, self.season_root),
        }


@dataclass(frozen=True)
class StreetPlace:
    """A street-snap draft's place. Ids are None where the city is empty; the root is the canonical one."""

    texts: StreetTexts
    city_id: int | None
    city_root: int | None
    city_name: str

    @property
    def key(self) -> StreetKey | None:
        """Return the promotion key, or None while the city or the year is missing (domain.md 3.7)."""
        if self.city_root is None or not self.texts.year:
            return None
        return StreetKey(self.city_root, self.texts.year, self.texts.month)

    @property
    def missing(self) -> list[str]:
        """Return the fields that an editor must fill in before approval."""
        parts = {"street_snap.city": self.city_id, "street_snap.year": self.texts.year}
        return [field for field, value in parts.items() if not value]

    @property
    def subtitle(self) -> str:
        """Return the second line of a card: `city · YYYY-MM` as far as it is known (domain.md 4.7)."""
        city, year, month = self.city_name or self.texts.city, self.texts.year, self.texts.month
        when = f"{year:04d}-{month:02d}" if month else f"{year:04d}"
        return " · ".join(part for part in (city, when if year else "") if part)

    def columns(self) -> dict[str, object]:
        """Return the place as columns of the draft."""
        return {
            "city": self.texts.city,
            "city_id": self.city_id,
            "year": self.texts.year,
            "month": self.texts.month,
        }

    def names(self) -> dict[str, Name]:
        """Return the name of the place by table, with the canonical one that it stands for."""
        return {"cities": (self.city_id, self.city_root)}


Texts = RunwayTexts | StreetTexts
Place = RunwayPlace | StreetPlace


def vocabulary_locks(place: Place) -> set[int]:
    """Return the locks that keep the names of a place from being merged meanwhile."""
    return {
        vocabulary_lock_id(table, name)
        for table, pair in place.names().items()
        for name in pair
        if name is not None
    }
