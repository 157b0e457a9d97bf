"""Find and keep the names that keys are made of: brands, cities and seasons.

A name that a draft needs and that isn't there yet is added in a transaction of its own, before any lock of a
key is taken: an uncommitted spelling that others wait for must never stand inside the locks of a key.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.errors import InvalidArgument
from services.review.errors import UnknownBrand
from services.review.fold import clean, fold, fold_city
from services.review.models_vocabulary import (
    brand_aliases,
    brands,
    cities,
    city_aliases,
    season_aliases,
    seasons,
)
from services.review.places import Place, RunwayPlace, RunwayTexts, StreetPlace, StreetTexts, Texts
from services.review.seasons import READY_TO_WEAR, SeasonText, collection_of, parse_season

MAX_NAME = 128


async def resolve(session: AsyncSession, texts: Texts, *, create: bool) -> Place:
    """Return the place that the texts mean.

    With `create`, an unknown city or season is added as written (domain.md 4.6); without, it has no key.

    Raises:
        UnknownBrand: the brand isn't empty and no table knows it; brands are never added by a draft.
        InvalidArgument: a text is too long once it is cleaned.
    """
    if isinstance(texts, RunwayTexts):
        return await _resolve_runway(session, texts, create=create)
    return await _resolve_street(session, texts, create=create)


async def _resolve_runway(session: AsyncSession, texts: RunwayTexts, *, create: bool) -> RunwayPlace:
    brand = await _find_brand(session, texts.brand)
    if brand is None and fold(texts.brand):
        raise UnknownBrand(
            f"no brand is known as {clean(texts.brand)!r}; create it, or add the spelling to a brand",
            brand=clean(texts.brand),
        )
    season, named = await _season(session, texts.season, create=create)
    collection = collection_of(texts.collection, named)
    if len(collection) > MAX_NAME:
        raise InvalidArgument.of_field("runway.collection", f"has more than {MAX_NAME} characters")
    return RunwayPlace(
        texts=texts,
        brand_id=brand.id if brand else None,
        brand_root=brand.root_id if brand else None,
        brand_name=brand.root_name if brand else "",
        season_code=season.code if season else None,
        season_root=season.root_code if season else None,
        season_known=bool(season and season.known),
        collection_name=collection,
    )


async def _resolve_street(session: AsyncSession, texts: StreetTexts, *, create: bool) -> StreetPlace:
    city = await _find_city(session, texts.city)
    if city is None and create and fold_city(texts.city):
        city = await _add_city(session, texts.city)
    return StreetPlace(
        texts=texts,
        city_id=city.id if city else None,
        city_root=city.root_id if city else None,
        city_name=city.root_name if city else "",
    )


async def _find_brand(session: AsyncSession, text: str) -> Any:
    """Return (id, root_id, root_name) of the brand that a text names, or None."""
    return await _find_named(session, brands, brand_aliases, "brand_id", fold(text))


async def _find_city(session: AsyncSession, text: str) -> Any:
    """Return (id, root_id, root_name) of the city that a text names, or None."""
    return await _find_named(session, cities, city_aliases, "city_id", fold_city(text))


async def _find_named(session: AsyncSession, table: Table, aliases: Table, owner: str, folded: str) -> Any:
    if not folded:
        return None
    root = table.alias("root")
    query = (
        select(table.c.id, table.c.root_id, root.c.name.label("root_name"))
        .join(aliases, aliases.c[owner] == table.c.id)
        .join(root, root.c.id == table.c.root_id)
        .where(aliases.c.folded == folded)
    )
    return (await session.execute(query)).one_or_none()


async def _add_city(session: AsyncSession, text: str) -> Any:
    name = clean(text)
    city_id = await add_named(session, cities, {"name": name, "known": False})
    taken = await session.scalar(
        upsert(city_aliases)
        .values(folded=fold_city(text), city_id=city_id, alias=name)
        .on_conflict_do_update(index_elements=["folded"], set_={"folded": city_aliases.c.folded})
        .returning(city_aliases.c.city_id)
    )
    if taken != city_id:  # another draft brought the same city a moment ago
        await session.execute(cities.delete().where(cities.c.id == city_id))
    return await _find_city(session, text)


async def add_named(session: AsyncSession, table: Table, values: dict[str, object]) -> int:
    """Insert a brand or city that stands for itself; return its id."""
    row_id: int = (
        await session.execute(insert(table).values(**values, root_id=0).returning(table.c.id))
    ).scalar_one()
    await session.execute(update(table).where(table.c.id == row_id).values(root_id=row_id))
    return row_id


async def _season(session: AsyncSession, text: str, *, create: bool) -> tuple[Any, SeasonText | None]:
    """Return the season's row, or None, and what its text names beside it; (None, None) for an empty text."""
    folded = fold(text)
    if not folded:
        return None, None
    alias = (
        await session.execute(select(season_aliases).where(season_aliases.c.folded == folded))
    ).one_or_none()
    if alias is not None:
        row = await _season_row(session, alias.season_code)
        # the line of an unknown season is unknown too
        line = alias.line or (READY_TO_WEAR if row.known else "")
        return row, SeasonText(row.code, row.name, line)
    named = parse_season(text)
    if named is not None:
        if create:
            await _add_season(session, named.code, named.name, known=True)
        return await _season_row(session, named.code), named
    if not create:
        return None, None
    code = clean(text)
    await _add_season(session, code, code, known=False)
    await session.execute(
        upsert(season_aliases).values(folded=folded, season_code=code, alias=code).on_conflict_do_nothing()
    )
    return (await _season(session, text, create=False))[0], SeasonText(code, code, "")


async def _add_season(session: AsyncSession, code: str, name: str, *, known: bool) -> None:
    await session.execute(
        upsert(seasons).values(code=code, name=name, known=known, root_code=code).on_conflict_do_nothing()
    )


async def _season_row(session: AsyncSession, code: str) -> Any:
    query = select(seasons.c.code, seasons.c.root_code, seasons.c.known, seasons.c.name).where(
        seasons.c.code == code
    )
    return (await session.execute(query)).one_or_none()
