"""Lists of drafts and of official rows: keyset pages, never an offset. SQL only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.lane import Connection
from services.review import statements_list
from services.review.drafts import Draft
from services.review.fold import fold, fold_city
from services.review.models import RUNWAY, STREET, GalleryTables
from services.review.models_media import media
from services.review.models_vocabulary import brands, seasons
from services.review.repository_draft import to_draft
from services.review.seasons import parse_season
from services.review.states import Status

_HIGHEST_ID = 2**63 - 1


@dataclass(frozen=True)
class DraftFilter:
    """Which drafts to list; empty fields don't filter. `city`, `brand`, `season` are in any spelling."""

    statuses: tuple[Status, ...] = ()
    source: str = ""
    city: str = ""
    year: int = 0
    month: int = 0
    brand: str = ""
    season: str = ""
    show_deleted: bool = False


async def list_drafts(
    connection: Connection, tables: GalleryTables, wanted: DraftFilter, *, before_id: int | None, limit: int
) -> list[Draft]:
    """Return the newest drafts with an id below `before_id` (None: from the newest), by one statement."""
    set_ones = frozenset(name for name in statements_list.FILTERS if getattr(wanted, name))
    most = next(most for most in statements_list.LIMITS if most >= limit)
    rows = await statements_list.page(tables, set_ones, most).rows(
        connection,
        **_spelled(brand=wanted.brand, season=wanted.season, city=wanted.city),
        source=wanted.source,
        year=wanted.year,
        month=wanted.month,
        statuses=[status.value for status in dict.fromkeys(wanted.statuses or Status)],
        deleted=[False, True] if wanted.show_deleted else [False],
        after=-(_HIGHEST_ID if before_id is None else before_id),
        limit=limit,
    )
    return [to_draft(tables, row, image_count=row["image_count"], cover_key=row["cover_key"]) for row in rows]


def _spelled(*, brand: str = "", season: str = "", city: str = "") -> dict[str, str | None]:
    """Return what `statements_list.ROOTS` asks for; a name that nobody knows has no rows."""
    named = parse_season(season)
    return {
        "brand": fold(brand),
        "season": fold(season),
        "season_code": named.code if named else None,
        "city": fold_city(city),
    }


def _select_officials(tables: GalleryTables) -> Select[Any]:
    """Return the query of visible official rows with their covers (and names, for runways)."""
    officials = tables.officials
    query = select(officials, media.c.key.label("cover_key"))
    joined = officials.outerjoin(media, media.c.id == officials.c.cover_media_id)
    if tables is RUNWAY:
        query = query.add_columns(brands.c.name.label("brand_name"), seasons.c.name.label("season_name"))
        joined = joined.join(brands, brands.c.id == officials.c.brand_id).join(
            seasons, seasons.c.code == officials.c.season_code
        )
    return query.select_from(joined).where(~officials.c.is_hidden)


async def list_runways(
    session: AsyncSession, brand: str, season: str, *, before_id: int | None, limit: int
) -> Sequence[Any]:
    """Return the newest visible runways, of one brand or season in any spelling when given."""
    officials = RUNWAY.officials.c
    query = _select_officials(RUNWAY)
    if brand:
        query = query.where(officials.brand_id == text(statements_list.ROOTS["brand"]))
    if season:
        query = query.where(officials.season_code == text(statements_list.ROOTS["season"]))
    query = query.params(_spelled(brand=brand, season=season))
    return await _page(session, RUNWAY, query, before_id=before_id, limit=limit)


async def list_street_snaps(session: AsyncSession, *, before_id: int | None, limit: int) -> Sequence[Any]:
    """Return the newest visible street-snap albums."""
    return await _page(session, STREET, _select_officials(STREET), before_id=before_id, limit=limit)


async def _page(
    session: AsyncSession, tables: GalleryTables, query: Select[Any], *, before_id: int | None, limit: int
) -> Sequence[Any]:
    row_id = tables.officials.c.id
    if before_id is not None:
        query = query.where(row_id < before_id)
    rows: Sequence[Any] = (await session.execute(query.order_by(row_id.desc()).limit(limit))).all()
    return rows


async def find_official(session: AsyncSession, tables: GalleryTables, official_id: int) -> Any:
    """Return a visible official row, or None."""
    query = _select_officials(tables).where(tables.officials.c.id == official_id)
    return (await session.execute(query)).one_or_none()


async def official_images(
    session: AsyncSession, tables: GalleryTables, official_id: int, *, after: int
) -> Sequence[Any]:
    """Return an official row's images in order, from the position after `after` (-1: all)."""
    images = tables.official_images.c
    query = (
        select(
            images.position, images.caption, media.c.key, media.c.width, media.c.height, media.c.content_type
        )
        .join(media, media.c.id == images.media_id)
        .where(images.official_id == official_id, images.position > after)
        .order_by(images.position)
    )
    return (await session.execute(query)).all()


async def list_shown_brands(
    session: AsyncSession, *, after: tuple[str, int] | None, limit: int
) -> Sequence[Any]:
    """Return (id, name, runway_count) of the brands with visible runways, by name and id."""
    officials = RUNWAY.officials.c
    query = (
        select(brands.c.id, brands.c.name, func.count().label("runway_count"))
        .join(RUNWAY.officials, officials.brand_id == brands.c.id)
        .where(~officials.is_hidden)
        .group_by(brands.c.id, brands.c.name)
        .order_by(brands.c.name, brands.c.id)
        .limit(limit)
    )
    if after is not None:
        name, row_id = after
        query = query.where((brands.c.name > name) | ((brands.c.name == name) & (brands.c.id > row_id)))
    return (await session.execute(query)).all()
