"""Point a key at its canonical key, and undo it (domain.md 4.6). SQL only; the transaction is the caller's.

`canonical` is what an editor set and is never changed by another merge, so that clearing it is an exact undo;
`root` is the end of the chain and follows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Column, Table, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from services.review.errors import KeyNotFound
from services.review.keys import PromotionKey, RunwayKey, StreetKey
from services.review.models import RUNWAY, STREET, GalleryTables
from services.review.models_vocabulary import brands, cities, seasons
from services.review.promotion import counts

Identity = int | str


@dataclass(frozen=True)
class Pointers:
    """The columns of a vocabulary that merging works on, and the drafts that its keys make."""

    noun: str
    table: Table
    identity: Column[Any]
    canonical: Column[Any]
    root: Column[Any]
    tables: GalleryTables
    draft_column: Column[Any]
    key_field: str


BRAND = Pointers(
    "brand", brands, brands.c.id, brands.c.canonical_id, brands.c.root_id,
    RUNWAY, RUNWAY.drafts.c.brand_id, "brand_id",
)  # fmt: skip
CITY = Pointers(
    "city", cities, cities.c.id, cities.c.canonical_id, cities.c.root_id,
    STREET, STREET.drafts.c.city_id, "city_id",
)  # fmt: skip
SEASON = Pointers(
    "season", seasons, seasons.c.code, seasons.c.canonical_code, seasons.c.root_code,
    RUNWAY, RUNWAY.drafts.c.season_code, "season_code",
)  # fmt: skip


@dataclass(frozen=True)
class Pointer:
    """One key: where it points (None: at itself) and where that ends."""

    identity: Identity
    canonical: Identity | None
    root: Identity


async def find(session: AsyncSession, pointers: Pointers, identity: Identity) -> Pointer:
    """Return a key's pointer. Raises KeyNotFound."""
    query = select(pointers.identity, pointers.canonical, pointers.root).where(pointers.identity == identity)
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise KeyNotFound(f"no {pointers.noun} has the id {identity}", id=str(identity))
    return Pointer(*row)


async def subtree(session: AsyncSession, pointers: Pointers, identity: Identity) -> list[Identity]:
    """Return the key and all that point at it, directly or through others."""
    chain = select(pointers.identity.label("id")).where(pointers.identity == identity).cte(recursive=True)
    below = select(pointers.identity).join(chain, pointers.canonical == chain.c.id)
    return list(await session.scalars(select(chain.union(below).c.id)))


async def shown_keys(
    session: AsyncSession, pointers: Pointers, members: Collection[Identity]
) -> dict[PromotionKey, int]:
    """Return the keys that the members' shown drafts make, and how many drafts each has."""
    drafts = pointers.tables.drafts.c
    if pointers.tables is RUNWAY:
        key = (brands.c.root_id, seasons.c.root_code, drafts.collection_key)
        joined = pointers.tables.drafts.join(brands, brands.c.id == drafts.brand_id).join(
            seasons, seasons.c.code == drafts.season_code
        )
    else:
        key = (cities.c.root_id, drafts.year, drafts.month)
        joined = pointers.tables.drafts.join(cities, cities.c.id == drafts.city_id)
    query = (
        select(*key, func.count())
        .select_from(joined)
        .where(counts(pointers.tables), pointers.draft_column.in_(members))
        .group_by(*key)
    )
    kind = RunwayKey if pointers.tables is RUNWAY else StreetKey
    return {kind(*parts): count for *parts, count in await session.execute(query)}


def moved(pointers: Pointers, key: PromotionKey, root: Identity) -> PromotionKey:
    """Return the key under another root of this vocabulary."""
    return replace(key, **{pointers.key_field: root})  # type: ignore[arg-type]


async def count_drafts(session: AsyncSession, pointers: Pointers, members: Collection[Identity]) -> int:
    """Return how many drafts the members have, in any state."""
    query = select(func.count()).select_from(pointers.tables.drafts).where(pointers.draft_column.in_(members))
    return int((await session.execute(query)).scalar_one())


async def point(
    session: AsyncSession, pointers: Pointers, identity: Identity, canonical: Identity | None
) -> None:
    """Set or clear a key's pointer."""
    await session.execute(
        update(pointers.table)
        .where(pointers.identity == identity)
        .values({pointers.canonical.name: canonical})
    )


async def reroot(
    session: AsyncSession, pointers: Pointers, members: Collection[Identity], root: Identity
) -> None:
    """Set the end of the chain of the members."""
    await session.execute(
        update(pointers.table).where(pointers.identity.in_(members)).values({pointers.root.name: root})
    )
