"""The vocabulary of the review schema: brands, cities and seasons with their spellings.

A key may point at the key that it was merged into (`canonical_*`, as an editor set it); `root_*` is the end
of that chain, kept beside it because every look-up needs it.
"""

from __future__ import annotations

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
    String,
    Table,
    Text,
    text,
)

from services.review.models_media import metadata


def _identity() -> Column[Any]:
    return Column("id", BigInteger, Identity(always=False), primary_key=True)


def _created() -> Column[Any]:
    return Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()"))


brands = Table(
    "brands",
    metadata,
    _identity(),
    Column("name", String(128), nullable=False),
    Column("canonical_id", BigInteger, ForeignKey("brands.id")),
    Column("root_id", BigInteger, nullable=False),
    _created(),
    Index("ix_brands_root", "root_id"),
    CheckConstraint("canonical_id <> id", name="brands_canonical"),
)
brand_aliases = Table(
    "brand_aliases",
    metadata,
    Column("folded", Text, primary_key=True),
    Column("brand_id", BigInteger, ForeignKey(brands.c.id), nullable=False),
    Column("alias", String(128), nullable=False),
    Index("ix_brand_aliases_brand", "brand_id"),
)
cities = Table(
    "cities",
    metadata,
    _identity(),
    Column("name", String(128), nullable=False),
    Column("known", Boolean, nullable=False),
    Column("canonical_id", BigInteger, ForeignKey("cities.id")),
    Column("root_id", BigInteger, nullable=False),
    _created(),
    Index("ix_cities_root", "root_id"),
    CheckConstraint("canonical_id <> id", name="cities_canonical"),
)
city_aliases = Table(
    "city_aliases",
    metadata,
    Column("folded", Text, primary_key=True),
    Column("city_id", BigInteger, ForeignKey(cities.c.id), nullable=False),
    Column("alias", String(128), nullable=False),
    Index("ix_city_aliases_city", "city_id"),
)
seasons = Table(
    "seasons",
    metadata,
    Column("code", String(128), primary_key=True),
    Column("name", String(128), nullable=False),
    Column("known", Boolean, nullable=False),
    Column("canonical_code", String(128), ForeignKey("seasons.code")),
    Column("root_code", String(128), nullable=False),
    _created(),
    Index("ix_seasons_root", "root_code"),
    CheckConstraint("canonical_code <> code", name="seasons_canonical"),
)
season_aliases = Table(
    "season_aliases",
    metadata,
    Column("folded", Text, primary_key=True),
    Column("season_code", String(128), ForeignKey(seasons.c.code), nullable=False),
    Column("alias", String(128), nullable=False),
    Column("line", String(64), nullable=False, server_default=text("''")),
    Index("ix_season_aliases_season", "season_code"),
)
