"""Promotion: the official row of a key is the ordered union of its approved drafts (domain.md 4.3, 4.4).

Whoever changes the approved drafts of a key, or what they show, first takes the locks of all keys concerned
(`lock`), re-reads the draft, and then calls `recompute` for each key. Recomputing is idempotent and depends
on the drafts alone, so the order in which they were approved can't matter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    String,
    Table,
    Text,
    and_,
    case,
    cast,
    column,
    delete,
    func,
    insert,
    literal,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT, BOOLEAN, INTEGER
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from services.review.keys import PromotionKey, RunwayKey
from services.review.models import RUNWAY, STREET, GalleryTables
from services.review.models_vocabulary import brands, cities, seasons
from services.review.states import Status
from services.review.union import Shown, Sibling, Union, union_of


@dataclass(frozen=True)
class Locks:
    """The advisory locks of a change: names shared (against merging), keys exclusive."""

    names: frozenset[int]
    keys: frozenset[int]

    def covers(self, other: Locks) -> bool:
        """Tell whether holding these is enough for what needs `other`."""
        return other.names <= self.names and other.keys <= self.keys


@dataclass(frozen=True)
class Official:
    """The official row after a recomputation. `published`: it was created or came out of hiding."""

    id: int
    published: bool


def tables_of(key: PromotionKey) -> GalleryTables:
    """Return the tables of the key's kind."""
    return RUNWAY if isinstance(key, RunwayKey) else STREET


async def lock(session: AsyncSession, locks: Locks, *, exclusive_names: bool = False) -> None:
    """Take the locks until the transaction ends, in one statement that does nothing else.

    Names come before keys and each in sorted order, so that two changes never wait for each other. What is
    read next is read by statements of their own: under READ COMMITTED they see what the last holder did.
    """
    wanted = [(i, not exclusive_names) for i in sorted(locks.names)] + [
        (i, False) for i in sorted(locks.keys)
    ]
    if not wanted:
        return
    ids, shared = zip(*wanted, strict=True)
    listed = (
        func.unnest(cast(list(ids), ARRAY(BIGINT)), cast(list(shared), ARRAY(BOOLEAN)))
        .table_valued(column("id", BIGINT), column("shared", BOOLEAN), name="listed")
        .render_derived()
    )
    taken = case(
        (listed.c.shared, cast(func.pg_advisory_xact_lock_shared(listed.c.id), Text)),
        else_=cast(func.pg_advisory_xact_lock(listed.c.id), Text),
    )
    await session.execute(select(taken).select_from(listed))


def counts(tables: GalleryTables) -> ColumnElement[bool]:
    """Return the condition under which a draft shows in the official row."""
    # a literal: only then does a generic plan know that the partial index of siblings covers the question
    return and_(
        tables.drafts.c.status == literal_column(f"'{Status.APPROVED.value}'"), ~tables.drafts.c.is_deleted
    )


def _has_key(tables: GalleryTables, key: PromotionKey) -> ColumnElement[bool]:
    """Return the condition under which a draft belongs to the key: its names' roots make it."""
    drafts = tables.drafts.c
    if isinstance(key, RunwayKey):
        return and_(
            drafts.brand_id.in_(select(brands.c.id).where(brands.c.root_id == key.brand_id)),
            drafts.season_code.in_(select(seasons.c.code).where(seasons.c.root_code == key.season_code)),
            drafts.collection_key == key.collection_key,
        )
    return and_(
        drafts.city_id.in_(select(cities.c.id).where(cities.c.root_id == key.city_id)),
        drafts.year == key.year,
        drafts.month == key.month,
    )


async def find_official(session: AsyncSession, key: PromotionKey) -> Any:
    """Return the key's official row, hidden or not, or None."""
    officials = tables_of(key).officials
    here = and_(*(officials.c[name] == value for name, value in key.columns().items()))
    return (await session.execute(select(officials).where(here))).one_or_none()


async def recompute_all(
    session: AsyncSession, keys: Collection[PromotionKey]
) -> dict[PromotionKey, Official | None]:
    """Recompute the official rows of the keys, whose locks are held; return what each became."""
    return {key: await recompute(session, key) for key in sorted(keys, key=lambda k: k.lock_id)}


async def recompute(session: AsyncSession, key: PromotionKey) -> Official | None:
    """Make the official row what the approved drafts say; None when there are neither drafts nor a row.

    Without approved drafts the row is emptied and hidden and keeps its id.
    """
    tables = tables_of(key)
    wanted = await _union(session, tables, key)
    known = await find_official(session, key)
    if wanted is None:
        if known is not None and not known.is_hidden:
            await _fit_images(session, tables, known.id, ())
            await _describe(session, tables, known.id, _facts(tables, Union("", "", None, ()), hidden=True))
        return Official(known.id, published=False) if known is not None else None
    row = known if known is not None else await _create(session, tables, key)
    facts = _facts(tables, wanted, hidden=False)
    differs = any(getattr(row, name) != value for name, value in facts.items())
    if await _fit_images(session, tables, row.id, wanted.images) or differs:
        await _describe(session, tables, row.id, facts)
    return Official(row.id, published=known is None or known.is_hidden)


async def _union(session: AsyncSession, tables: GalleryTables, key: PromotionKey) -> Union | None:
    drafts, images = tables.drafts.c, tables.draft_images.c
    collection = drafts.collection_name if tables is RUNWAY else literal("")
    query = (
        select(drafts.id, drafts.title, drafts.cover_media_id, collection)
        .where(counts(tables), _has_key(tables, key))
        .order_by(drafts.id)
    )
    siblings = [Sibling(*row) for row in await session.execute(query)]
    if not siblings:
        return None
    ids = cast([sibling.draft_id for sibling in siblings], ARRAY(BIGINT))
    shown = (
        select(images.media_id, images.caption, images.draft_id)
        .where(images.draft_id == func.any(ids), ~images.hidden)
        .order_by(images.draft_id, images.position)
    )
    return union_of(siblings, [Shown(*row) for row in await session.execute(shown)])


async def _create(session: AsyncSession, tables: GalleryTables, key: PromotionKey) -> Any:
    # The lock of the key makes a conflict impossible; the constraint is the backstop for whoever forgot it.
    statement = (
        upsert(tables.officials)
        .values(**key.columns())
        .on_conflict_do_update(constraint=tables.key_constraint, set_={"updated_at": func.now()})
        .returning(tables.officials)
    )
    return (await session.execute(statement)).one()


async def _fit_images(
    session: AsyncSession, tables: GalleryTables, official_id: int, wanted: Sequence[Shown]
) -> bool:
    """Make the official images the wanted ones, touching only the rows that differ; tell whether any did."""
    images = tables.official_images
    columns = (images.c.id, images.c.position, images.c.media_id, images.c.caption, images.c.draft_id)
    rows = await session.execute(select(*columns).where(images.c.official_id == official_id))
    there = {row_id: (position, Shown(*shown)) for row_id, position, *shown in rows}
    missing = set(enumerate(wanted))
    wrong = [row_id for row_id, placed in there.items() if placed not in missing]
    if wrong:
        await session.execute(delete(images).where(images.c.id == func.any(cast(wrong, ARRAY(BIGINT)))))
    missing -= set(there.values())
    if missing:
        await _insert_images(session, images, official_id, sorted(missing, key=lambda placed: placed[0]))
    return bool(wrong or missing)


async def _insert_images(
    session: AsyncSession, images: Table, official_id: int, placed: Sequence[tuple[int, Shown]]
) -> None:
    columns = {
        "position": ([position for position, _ in placed], INTEGER),
        "media_id": ([shown.media_id for _, shown in placed], BIGINT),
        "caption": ([shown.caption for _, shown in placed], String),
        "draft_id": ([shown.draft_id for _, shown in placed], BIGINT),
    }
    arrays: list[ColumnElement[Any]] = [cast(values, ARRAY(kind)) for values, kind in columns.values()]
    new = func.unnest(*arrays).table_valued(*(column(name, kind) for name, (_, kind) in columns.items()))
    new = new.render_derived(name="new")
    rows = select(literal(official_id), *(new.c[name] for name in columns))
    await session.execute(insert(images).from_select(["official_id", *columns], rows))


def _facts(tables: GalleryTables, wanted: Union, *, hidden: bool) -> dict[str, object]:
    """Return the columns that describe the row; a hidden one keeps its title for those who look it up."""
    facts: dict[str, object] = {
        "cover_media_id": wanted.cover_media_id,
        "image_count": len(wanted.images),
        "is_hidden": hidden,
    }
    if not hidden:
        facts["title"] = wanted.title
    if not hidden and tables is RUNWAY:
        facts["collection"] = wanted.collection
    return facts


async def _describe(
    session: AsyncSession, tables: GalleryTables, official_id: int, facts: Mapping[str, object]
) -> None:
    officials = tables.officials
    await session.execute(
        update(officials).where(officials.c.id == official_id).values(**facts, updated_at=func.now())
    )
