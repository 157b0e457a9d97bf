"""The keys that drafts are promoted under, and the key that an article is known by.

One type at every site: the look-up for ingest, promotion's own look-up, the union of siblings and the locks
(domain.md 4.5). If one of them forgot the month, February's album would hold August's pictures.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from libs.common.errors import InvalidArgument
from libs.common.source import normalise_source, normalise_url, source_violations


def _lock_id(*parts: object) -> int:
    """Return the advisory lock of a name: 64 bits, the same on every server."""
    digest = hashlib.sha256("\x1f".join(map(str, ("frontrow.review", *parts))).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


@dataclass(frozen=True)
class RunwayKey:
    """Key of an official runway: canonical brand, canonical season, folded collection."""

    brand_id: int
    season_code: str
    collection_key: str

    @property
    def lock_id(self) -> int:
        """Return the advisory lock that guards the official row of this key."""
        return _lock_id("runway", self.brand_id, self.season_code, self.collection_key)

    def columns(self) -> dict[str, object]:
        """Return the key as columns of the official table."""
        return {
            "brand_id": self.brand_id,
            "season_code": self.season_code,
            "collection_key": self.collection_key,
        }


@dataclass(frozen=True)
class StreetKey:
    """Key of an official street-snap album: canonical city, year, month (0: the old key without a month)."""

    city_id: int
    year: int
    month: int

    @property
    def lock_id(self) -> int:
        """Return the advisory lock that guards the official row of this key."""
        return _lock_id("street_snap", self.city_id, self.year, self.month)

    def columns(self) -> dict[str, object]:
        """Return the key as columns of the official table."""
        return {"city_id": self.city_id, "year": self.year, "month": self.month}


PromotionKey = RunwayKey | StreetKey


def vocabulary_lock_id(table: str, identity: object) -> int:
    """Return the lock of a brand, city or season: shared while promoting, exclusive while merging."""
    return _lock_id("vocabulary", table, identity)


@dataclass(frozen=True)
class SourceKey:
    """Key that an article is known by (domain.md 3.10). An empty url is no key."""

    source: str
    source_url: str

    @classmethod
    def of(cls, source: str, source_url: str) -> SourceKey:
        """Normalise both as ingest does.

        Raises:
            InvalidArgument: one of them is too long; nothing is ever cut.
        """
        key = cls(normalise_source(source), normalise_url(source_url))
        violations = source_violations(key.source, key.source_url)
        if violations:
            raise InvalidArgument("the source key is too long", violations=violations)
        return key
