"""Promotion: the official row of a key is the ordered union of its approved drafts (domain.md 4.3, 4.4).

Whoever changes the approved drafts of a key, or what they show, first takes the locks of all keys concerned
(`lock`), re-reads the draft, and then calls `recompute` for each key. Recomputing is idempotent and depends
on the drafts alone, so the order in which they were approved can't matter.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Subquery,
    Text,
    and_,
    case,
    cast,
    column,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT, BOOLEAN
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from services.review.keys import PromotionKey, RunwayKey
from services.review.models import RUNWAY, STREET, GalleryTables
from services.review.models_vocabulary import brands, cities, seasons
from services.review.states import Status


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
    return and_(tables.drafts.c.status == Status.APPROVED.value, ~tables.drafts.c.is_deleted)


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
    """Return (id, title, is_hidden) of the key's official row, or None."""
    officials = tables_of(key).officials
    query = select(officials.c.id, officials.c.title, officials.c.is_hidden).where(_is_row_of(key))
    return (await session.execute(query)).one_or_none()


def _is_row_of(key: PromotionKey) -> ColumnElement[bool]:
    officials = tables_of(key).officials
    return and_(*(officials.c[name] == value for name, value in key.columns().items()))


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
    drafts = tables.drafts.c
    first = (
        await session.execute(
            select(tables.drafts).where(counts(tables), _has_key(tables, key)).order_by(drafts.id).limit(1)
        )
    ).one_or_none()
    known = await find_official(session, key)
    if first is None:
        if known is not None and not known.is_hidden:
            await _hide(session, tables, known.id)
        return Official(known.id, published=False) if known is not None else None
    official_id = known.id if known is not None else await _create(session, tables, key)
    await _fit_images(session, tables, key, official_id)
    await _describe(session, tables, official_id, first)
    return Official(official_id, published=known is None or known.is_hidden)


async def _create(session: AsyncSession, tables: GalleryTables, key: PromotionKey) -> int:
    # The lock of the key makes a conflict impossible; the constraint is the backstop for whoever forgot it.
    statement = (
        upsert(tables.officials)
        .values(**key.columns())
        .on_conflict_do_update(constraint=tables.key_constraint, set_={"updated_at": func.now()})
        .returning(tables.officials.c.id)
    )
    return int((await session.execute(statement)).scalar_one())


async def _hide(session: AsyncSession, tables: GalleryTables, official_id: int) -> None:
    await session.execute(
        delete(tables.official_images).where(tables.official_images.c.official_id == official_id)
    )
    await session.execute(
        update(tables.officials)
        .where(tables.officials.c.id == official_id)
        .values(is_hidden=True, image_count=0, cover_media_id=None, updated_at=func.now())
    )


def _wanted(tables: GalleryTables, key: PromotionKey) -> Subquery:
    """Return the union: each image once, at its first place by draft id and position."""
    images = tables.draft_images.c
    order = (images.draft_id, images.position)
    every = (
        select(
            images.media_id,
            images.caption,
            images.draft_id,
            images.position.label("place"),
            func.row_number().over(partition_by=images.media_id, order_by=order).label("copy"),
        )
        .join(tables.drafts, tables.drafts.c.id == images.draft_id)
        .where(counts(tables), _has_key(tables, key), ~images.hidden)
        .subquery("every")
    )
    position = func.row_number().over(order_by=(every.c.draft_id, every.c.place)).label("position")
    return (
        select(every.c.media_id, every.c.caption, every.c.draft_id, position)
        .where(every.c.copy == 1)
        .subquery("wanted")
    )


async def _fit_images(
    session: AsyncSession, tables: GalleryTables, key: PromotionKey, official_id: int
) -> None:
    """Replace the official images by the union, touching only what differs."""
    wanted, images = _wanted(tables, key), tables.official_images
    same = [images.c[name] == wanted.c[name] for name in ("media_id", "position", "caption", "draft_id")]
    await session.execute(
        delete(images).where(images.c.official_id == official_id, ~exists(select(1).where(*same)))
    )
    # what is left is right, so that a row is missing exactly when its image is
    present = exists(
        select(1).where(images.c.official_id == official_id, images.c.media_id == wanted.c.media_id)
    )
    columns = [wanted.c.position, wanted.c.media_id, wanted.c.caption, wanted.c.draft_id]
    await session.execute(
        insert(images).from_select(
            ["official_id", "position", "media_id", "caption", "draft_id"],
            select(literal(official_id), *columns).where(~present),
        )
    )


async def _describe(session: AsyncSession, tables: GalleryTables, official_id: int, first: Any) -> None:
    """Set title, cover and count: title and cover are the first sibling's by draft id."""
    officials, images = tables.officials, tables.official_images
    of_this = images.c.official_id == official_id
    # The chosen cover while it shows, else the first image, which is the first sibling's own.
    chosen = func.coalesce(images.c.media_id == first.cover_media_id, False)
    cover = select(images.c.media_id).where(of_this).order_by(chosen.desc(), images.c.position).limit(1)
    facts: dict[str, Any] = {
        "title": first.title,
        "cover_media_id": cover.scalar_subquery(),
        "image_count": select(func.count()).select_from(images).where(of_this).scalar_subquery(),
        "is_hidden": False,
    }
    if tables is RUNWAY:
        facts["collection"] = first.collection_name
    changed = or_(*(officials.c[name].is_distinct_from(value) for name, value in facts.items()))
    await session.execute(
        update(officials).where(officials.c.id == official_id, changed).values(**facts, updated_at=func.now())
    )
