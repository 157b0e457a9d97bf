"""Promotion: the official row of a key is the ordered union of its approved drafts (domain.md 4.3, 4.4).

Whoever changes the approved drafts of a key, or what they show, first takes the locks of all keys concerned
(`locking`), makes sure that the draft is as it was seen, and then calls `recompute` for each key. Recomputing
is idempotent and depends on the drafts alone, so the order in which they were approved can't matter.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, literal_column, select
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.lane import Connection
from services.review import statements_promotion
from services.review.keys import PromotionKey, RunwayKey
from services.review.models import RUNWAY, STREET, GalleryTables
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


def locking(locks: Locks, *, exclusive_names: bool = False) -> str:
    """Return the statements that take the locks until the transaction ends, and do nothing else.

    Names come before keys and each in sorted order, so that two changes never wait for each other. What is
    read next is read by statements of their own: under READ COMMITTED they see what the last holder did.
    """
    names = "pg_advisory_xact_lock" if exclusive_names else "pg_advisory_xact_lock_shared"
    taken = [f"SELECT {names}({i})" for i in sorted(locks.names)]
    return "; ".join(taken + [f"SELECT pg_advisory_xact_lock({i})" for i in sorted(locks.keys)])


def counts(tables: GalleryTables) -> ColumnElement[bool]:
    """Return the condition under which a draft shows in the official row."""
    # a literal: only then does a generic plan know that the partial index of siblings covers the question
    return and_(
        tables.drafts.c.status == literal_column(f"'{Status.APPROVED.value}'"), ~tables.drafts.c.is_deleted
    )


async def find_official(session: AsyncSession, key: PromotionKey) -> Any:
    """Return the key's official row, hidden or not, or None."""
    officials = tables_of(key).officials
    here = and_(*(officials.c[name] == value for name, value in key.columns().items()))
    return (await session.execute(select(officials).where(here))).one_or_none()


async def recompute_all(
    connection: Connection, keys: Collection[PromotionKey]
) -> dict[PromotionKey, Official | None]:
    """Recompute the official rows of the keys, whose locks are held; return what each became."""
    return {key: await recompute(connection, key) for key in sorted(keys, key=lambda k: k.lock_id)}


async def recompute(connection: Connection, key: PromotionKey) -> Official | None:
    """Make the official row what the approved drafts say; None when there are neither drafts nor a row.

    It shows the ordered union of their images that aren't hidden: by draft id, then position, each object
    once at its first place. Title, collection and cover are the first draft's (domain.md 4.3): the cover of
    its card, and the row's first image where that draft shows none. Only what differs is written. Without
    approved drafts the row is emptied and hidden and keeps its id and its title.
    """
    statement = statements_promotion.recompute(tables_of(key))
    row = await statement.row(connection, **key.columns())
    return None if row is None or row["id"] is None else Official(row["id"], published=row["published"])
