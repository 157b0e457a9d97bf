"""Tables of the review schema: drafts, official rows and history.

Both kinds of gallery have the same shape and different keys; `GalleryTables` names what differs, so that
every statement is written once. Media rows stand in `models_media`, names in `models_vocabulary`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from services.review.models_media import media, metadata
from services.review.models_vocabulary import brands, cities, seasons

_NOW = text("now()")
_EMPTY = text("''")
_ZERO = text("0")
_FALSE = text("false")


def _identity() -> Column[Any]:
    return Column("id", BigInteger, Identity(always=False), primary_key=True)


def _moment(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=None if nullable else _NOW)


def _words(name: str, length: int) -> Column[Any]:
    return Column(name, String(length), nullable=False, server_default=_EMPTY)


def _page_index(prefix: str, name: str, *columns: str) -> Index:
    """Return the index of the lists that are filtered by the columns, see `statements_list`."""
    return Index(f"ix_{prefix}_draft_page_{name}", *columns, "status", "is_deleted", text("(-id)"))


def _draft_table(name: str, prefix: str, key: list[Column[Any] | Index]) -> Table:
    return Table(
        name,
        metadata,
        _identity(),
        # one draft a job: a lost reply must find its own draft, not a duplicate of itself
        _words("job_id", 64),
        _words("source", 32),
        _words("source_url", 512),
        _words("title", 512),
        Column("status", Text, nullable=False, server_default=text("'pending'")),
        Column("is_deleted", Boolean, nullable=False, server_default=_FALSE),
        # rises with every change; the etag
        Column("revision", Integer, nullable=False, server_default=text("1")),
        Column("cover_media_id", BigInteger, ForeignKey(media.c.id, ondelete="RESTRICT")),
        _words("reject_reason", 1000),
        _words("decided_by", 256),
        _moment("decided_at", nullable=True),
        _moment("created_at"),
        _moment("updated_at"),
        _moment("deleted_at", nullable=True),
        # of what brought it in, a W3C traceparent: a decision points at it
        Column("trace_parent", Text, nullable=False, server_default=_EMPTY),
        *key,
        CheckConstraint("status IN ('pending', 'approved', 'rejected')", name=f"{name}_status"),
        # Crawled is terminal: deleted drafts hold their key as well (domain.md 3.4, 3.5).
        Index(
            f"uq_{prefix}_draft_source",
            "source",
            "source_url",
            unique=True,
            postgresql_where=text("source_url <> ''"),
        ),
        Index(f"uq_{prefix}_draft_job", "job_id", unique=True, postgresql_where=text("job_id <> ''")),
        Index(
            f"ix_{prefix}_draft_cover", "cover_media_id", postgresql_where=text("cover_media_id IS NOT NULL")
        ),
    )


def _draft_image_table(drafts: Table, prefix: str) -> Table:
    return Table(
        f"{drafts.name.removesuffix('s')}_images",
        metadata,
        _identity(),
        Column("draft_id", BigInteger, ForeignKey(drafts.c.id, ondelete="CASCADE"), nullable=False),
        Column("position", Integer, nullable=False),
        Column("media_id", BigInteger, ForeignKey(media.c.id, ondelete="RESTRICT"), nullable=False),
        _words("caption", 1000),
        Column("original_url", Text, nullable=False, server_default=_EMPTY),
        Column("hidden", Boolean, nullable=False, server_default=_FALSE),
        # deferrable: reordering is one UPDATE that passes through duplicates
        UniqueConstraint("draft_id", "position", name=f"uq_{prefix}_draft_image_position", deferrable=True),
        UniqueConstraint("draft_id", "media_id", name=f"uq_{prefix}_draft_image_media"),
        Index(f"ix_{prefix}_draft_image_media", "media_id"),
    )


def _official_table(name: str, prefix: str, key: list[Column[Any]]) -> Table:
    return Table(
        name,
        metadata,
        _identity(),
        *key,
        _words("title", 512),
        Column("cover_media_id", BigInteger, ForeignKey(media.c.id, ondelete="RESTRICT")),
        Column("image_count", Integer, nullable=False, server_default=_ZERO),
        # without approved drafts a row is hidden and keeps its id
        Column("is_hidden", Boolean, nullable=False, server_default=_FALSE),
        _moment("created_at"),
        _moment("updated_at"),
        Index(f"ix_{prefix}_cover", "cover_media_id", postgresql_where=text("cover_media_id IS NOT NULL")),
        Index(f"ix_{prefix}_visible", "id", postgresql_where=text("NOT is_hidden")),
    )


def _official_image_table(officials: Table, drafts: Table, prefix: str) -> Table:
    return Table(
        f"{officials.name.removesuffix('s')}_images",
        metadata,
        _identity(),
        Column("official_id", BigInteger, ForeignKey(officials.c.id, ondelete="CASCADE"), nullable=False),
        Column("position", Integer, nullable=False),
        Column("media_id", BigInteger, ForeignKey(media.c.id, ondelete="RESTRICT"), nullable=False),
        _words("caption", 1000),
        # the sibling that the image came from; a purge removes it first and recomputes the row then
        Column(
            "draft_id",
            BigInteger,
            ForeignKey(drafts.c.id, deferrable=True, initially="DEFERRED"),
            nullable=False,
        ),
        UniqueConstraint("official_id", "position", name=f"uq_{prefix}_image_position"),
        UniqueConstraint("official_id", "media_id", name=f"uq_{prefix}_image_media"),
        Index(f"ix_{prefix}_image_media", "media_id"),
        Index(f"ix_{prefix}_image_draft", "draft_id"),
    )


brand_runway_drafts = _draft_table(
    "brand_runway_drafts",
    "br",
    [
        _words("brand", 128),
        Column("brand_id", BigInteger, ForeignKey(brands.c.id)),
        _words("season", 128),
        Column("season_code", String(128), ForeignKey(seasons.c.code)),
        _words("collection", 128),
        # what an empty collection takes from the season's line; the key is its folded form
        _words("collection_name", 128),
        Column("collection_key", Text, nullable=False, server_default=_EMPTY),
        Index(
            "ix_br_draft_siblings",
            "brand_id",
            "season_code",
            "collection_key",
            postgresql_where=text("status = 'approved' AND NOT is_deleted"),
        ),
        _page_index("br", "status"),
        _page_index("br", "source", "source"),
        _page_index("br", "brand", "brand_id"),
        _page_index("br", "season", "season_code"),
    ],
)
brand_runway_draft_images = _draft_image_table(brand_runway_drafts, "br")
brand_runways = _official_table(
    "brand_runways",
    "br",
    [
        Column("brand_id", BigInteger, ForeignKey(brands.c.id), nullable=False),
        Column("season_code", String(128), ForeignKey(seasons.c.code), nullable=False),
        Column("collection_key", Text, nullable=False),
        _words("collection", 128),
    ],
)
brand_runways.append_constraint(
    UniqueConstraint("brand_id", "season_code", "collection_key", name="uq_brand_runways_key")
)
brand_runway_images = _official_image_table(brand_runways, brand_runway_drafts, "br")

street_snap_drafts = _draft_table(
    "street_snap_drafts",
    "ss",
    [
        _words("city", 128),
        Column("city_id", BigInteger, ForeignKey(cities.c.id)),
        Column("year", SmallInteger, nullable=False, server_default=_ZERO),
        Column("month", SmallInteger, nullable=False, server_default=_ZERO),
        Index(
            "ix_ss_draft_siblings",
            "city_id",
            "year",
            "month",
            postgresql_where=text("status = 'approved' AND NOT is_deleted"),
        ),
        _page_index("ss", "status"),
        _page_index("ss", "source", "source"),
        _page_index("ss", "city", "city_id"),
        _page_index("ss", "year", "year", "month"),
        _page_index("ss", "month", "month"),
    ],
)
street_snap_drafts.append_constraint(
    CheckConstraint("month BETWEEN 0 AND 12", name="street_snap_drafts_month")
)
street_snap_draft_images = _draft_image_table(street_snap_drafts, "ss")
street_snaps = _official_table(
    "street_snaps",
    "ss",
    [
        Column("city_id", BigInteger, ForeignKey(cities.c.id), nullable=False),
        Column("year", SmallInteger, nullable=False),
        Column("month", SmallInteger, nullable=False, server_default=_ZERO),
    ],
)
street_snaps.append_constraint(UniqueConstraint("city_id", "year", "month", name="uq_street_snaps_key"))
street_snaps.append_constraint(
    CheckConstraint("year > 0 AND month BETWEEN 0 AND 12", name="street_snaps_month")
)
street_snap_images = _official_image_table(street_snaps, street_snap_drafts, "ss")

# Outlives a purged draft, so it holds no foreign key.
draft_events = Table(
    "draft_events",
    metadata,
    _identity(),
    Column("kind", Text, nullable=False),
    Column("draft_id", BigInteger, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("action", Text, nullable=False),
    _words("actor", 256),
    _words("reason", 1000),
    # list of [field, before, after]
    Column("changes", JSONB, nullable=False, server_default=text("'[]'")),
    _moment("created_at"),
    Index("ix_draft_events_draft", "kind", "draft_id", "id"),
)


@dataclass(frozen=True)
class GalleryTables:
    """The tables of one kind of gallery, and the names of the constraints whose violation means something."""

    kind: str
    drafts: Table
    draft_images: Table
    officials: Table
    official_images: Table
    source_index: str
    job_index: str
    key_constraint: str


RUNWAY = GalleryTables(
    "runway",
    brand_runway_drafts,
    brand_runway_draft_images,
    brand_runways,
    brand_runway_images,
    "uq_br_draft_source",
    "uq_br_draft_job",
    "uq_brand_runways_key",
)
STREET = GalleryTables(
    "street_snap",
    street_snap_drafts,
    street_snap_draft_images,
    street_snaps,
    street_snap_images,
    "uq_ss_draft_source",
    "uq_ss_draft_job",
    "uq_street_snaps_key",
)
