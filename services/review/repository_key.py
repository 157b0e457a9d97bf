"""Administer the vocabulary: list, create and give spellings. SQL only.

Brands and cities have the same shape; `Vocabulary` names what differs. Seasons are known by their codes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, func, select
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.errors import InvalidArgument
from services.review.errors import KeyExists, KeyNotFound
from services.review.fold import clean, fold, fold_city
from services.review.models_vocabulary import (
    brand_aliases,
    brands,
    cities,
    city_aliases,
    season_aliases,
    seasons,
)
from services.review.repository_vocabulary import add_named
from services.review.seasons import parse_season


@dataclass(frozen=True)
class Vocabulary:
    """The tables of brands or of cities, and how their spellings are folded."""

    noun: str
    names: Table
    aliases: Table
    owner: str
    fold: Callable[[str], str]


BRANDS = Vocabulary("brand", brands, brand_aliases, "brand_id", fold)
CITIES = Vocabulary("city", cities, city_aliases, "city_id", fold_city)


async def list_names(
    session: AsyncSession, vocabulary: Vocabulary, *, after_id: int | None, limit: int
) -> Sequence[Any]:
    """Return the names by id, each with its other spellings as `aliases`."""
    names = vocabulary.names
    query = _with_aliases(vocabulary).order_by(names.c.id).limit(limit)
    if after_id is not None:
        query = query.where(names.c.id > after_id)
    return (await session.execute(query)).all()


async def find_name(session: AsyncSession, vocabulary: Vocabulary, row_id: int) -> Any:
    """Return one name with its other spellings. Raises KeyNotFound."""
    row = (
        await session.execute(_with_aliases(vocabulary).where(vocabulary.names.c.id == row_id))
    ).one_or_none()
    if row is None:
        raise KeyNotFound(f"no {vocabulary.noun} has the id {row_id}", id=str(row_id))
    return row


def _with_aliases(vocabulary: Vocabulary) -> Any:
    names, aliases = vocabulary.names, vocabulary.aliases
    others = (
        select(func.array_agg(aggregate_order_by(aliases.c.alias, aliases.c.alias)))
        .where(aliases.c[vocabulary.owner] == names.c.id, aliases.c.alias != names.c.name)
        .scalar_subquery()
    )
    return select(names, others.label("aliases"))


async def create_name(
    session: AsyncSession, vocabulary: Vocabulary, name: str, aliases: Sequence[str]
) -> int:
    """Create a brand or city with its spellings; return its id.

    Raises:
        KeyExists: a spelling names another one already.
        InvalidArgument: the name is empty once it is cleaned.
    """
    values: dict[str, object] = {"name": clean(name)}
    if vocabulary is CITIES:
        values["known"] = True
    row_id = await add_named(session, vocabulary.names, values)
    for spelling in (name, *aliases):
        await add_alias(session, vocabulary, row_id, spelling)
    return row_id


async def add_alias(session: AsyncSession, vocabulary: Vocabulary, row_id: int, alias: str) -> None:
    """Add a spelling; one that the same name has already changes nothing.

    Raises:
        KeyExists, InvalidArgument: see `create_name`.
    """
    folded, aliases = _folded(vocabulary.fold, alias), vocabulary.aliases
    owner: int = await session.scalar(
        upsert(aliases)
        .values(folded=folded, alias=clean(alias), **{vocabulary.owner: row_id})
        .on_conflict_do_update(index_elements=["folded"], set_={"folded": aliases.c.folded})
        .returning(aliases.c[vocabulary.owner])
    )
    if owner != row_id:
        other = await find_name(session, vocabulary, owner)
        raise KeyExists(
            f"{clean(alias)!r} names {vocabulary.noun} {owner} ({other.name}) already",
            id=str(owner),
            name=other.name,
        )


def _folded(fold_with: Callable[[str], str], alias: str) -> str:
    folded = fold_with(alias)
    if not folded:
        raise InvalidArgument("a name needs at least one visible character")
    return folded


async def list_seasons(session: AsyncSession, *, after_code: str | None, limit: int) -> Sequence[Any]:
    """Return the seasons by code."""
    query = select(seasons).order_by(seasons.c.code).limit(limit)
    if after_code is not None:
        query = query.where(seasons.c.code > after_code)
    return (await session.execute(query)).all()


async def season_spellings(session: AsyncSession, codes: Sequence[str]) -> Sequence[Any]:
    """Return (season_code, alias, line) of the seasons, by spelling."""
    query = (
        select(season_aliases).where(season_aliases.c.season_code.in_(codes)).order_by(season_aliases.c.alias)
    )
    return (await session.execute(query)).all()


async def find_season(session: AsyncSession, code: str) -> Any:
    """Return one season. Raises KeyNotFound."""
    row = (await session.execute(select(seasons).where(seasons.c.code == code))).one_or_none()
    if row is None:
        raise KeyNotFound(f"no season has the code {code!r}", id=code)
    return row


async def create_season(session: AsyncSession, code: str, name: str) -> None:
    """Create a season that the table of spellings doesn't know. Raises KeyExists."""
    added = await session.scalar(
        upsert(seasons)
        .values(code=clean(code), name=clean(name), known=True, root_code=clean(code))
        .on_conflict_do_nothing()
        .returning(seasons.c.code)
    )
    if added is None:
        raise KeyExists(f"season {clean(code)!r} exists already", id=clean(code), name=clean(code))
    await add_season_alias(session, clean(code), code, "")


async def add_season_alias(session: AsyncSession, code: str, alias: str, line: str) -> None:
    """Add a spelling of a season. Raises KeyExists when it, or the table of spellings, names another one."""
    folded = _folded(fold, alias)
    named = parse_season(alias)
    if named is not None and named.code != code:
        raise KeyExists(f"{clean(alias)!r} means {named.code} to everybody", id=named.code, name=named.name)
    owner: str = await session.scalar(
        upsert(season_aliases)
        .values(folded=folded, alias=clean(alias), season_code=code, line=clean(line))
        .on_conflict_do_update(index_elements=["folded"], set_={"folded": season_aliases.c.folded})
        .returning(season_aliases.c.season_code)
    )
    if owner != code:
        raise KeyExists(f"{clean(alias)!r} names season {owner} already", id=owner, name=owner)
