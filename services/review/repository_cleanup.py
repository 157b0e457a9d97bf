"""Find and remove media rows that nothing refers to (domain.md 4.9). SQL only, in windows of ids.

A reference is an image of a draft, deleted drafts included, or of an official row. Thumbnails have none of
their own: they go with their original.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Update, and_, cast, delete, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT
from sqlalchemy.ext.asyncio import AsyncSession

from services.review.models import RUNWAY, STREET
from services.review.models_media import media
from services.review.states import MediaState


@dataclass(frozen=True)
class Counts:
    """How many originals there are, how many of them may be marked, and how many deleted (with bytes)."""

    total: int = 0
    to_mark: int = 0
    to_delete: int = 0
    bytes_to_delete: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return the sum of two windows."""
        return Counts(
            self.total + other.total,
            self.to_mark + other.to_mark,
            self.to_delete + other.to_delete,
            self.bytes_to_delete + other.bytes_to_delete,
        )


def _referenced() -> ColumnElement[bool]:
    tables = [images for t in (RUNWAY, STREET) for images in (t.draft_images, t.official_images)]
    return or_(*(exists(select(1).where(images.c.media_id == media.c.id)) for images in tables))


def _before(column: ColumnElement[Any], grace: timedelta) -> ColumnElement[bool]:
    return column < func.now() - grace


def _idle_original(grace: timedelta) -> ColumnElement[bool]:
    """Return the condition of an original that nothing refers to and nobody touched for a grace."""
    return and_(
        media.c.parent_id.is_(None),
        media.c.state != MediaState.DELETING.value,
        _before(media.c.touched_at, grace),
        ~_referenced(),
    )


def _within(after: int, last: int) -> ColumnElement[bool]:
    return and_(media.c.id > after, media.c.id <= last)


async def window(session: AsyncSession, after: int, rows: int) -> int | None:
    """Return the last id of the next window of rows after `after`, None when there are none."""
    ids = select(media.c.id).where(media.c.id > after).order_by(media.c.id).limit(rows).subquery()
    last: int | None = await session.scalar(select(func.max(ids.c.id)))
    return last


async def count(session: AsyncSession, after: int, last: int, grace: timedelta) -> Counts:
    """Return the counts of a window; reads only."""
    idle = _idle_original(grace)
    due = and_(idle, media.c.marked_at.is_not(None), _before(media.c.marked_at, grace))
    query = select(
        func.count().filter(media.c.parent_id.is_(None)),
        func.count().filter(idle, media.c.marked_at.is_(None)),
        func.count().filter(due),
        func.coalesce(func.sum(media.c.size_bytes).filter(due), 0),
    ).where(_within(after, last))
    total, to_mark, to_delete, size = (await session.execute(query)).one()
    return Counts(total, to_mark, to_delete, int(size))


async def mark(session: AsyncSession, after: int, last: int, grace: timedelta) -> int:
    """Mark a window's idle originals; return how many are new. Those that are referred to lose their mark."""
    again = await _take(session, _within(after, last), media.c.marked_at.is_not(None), _referenced())
    await session.execute(_of(again).values(marked_at=None))
    idle = await _take(session, _within(after, last), media.c.marked_at.is_(None), _idle_original(grace))
    await session.execute(_of(idle).values(marked_at=func.now()))
    return len(idle)


async def condemn(session: AsyncSession, after: int, last: int, grace: timedelta) -> int:
    """Make a window's originals that stayed marked for a grace `deleting`, thumbnails with them."""
    due = and_(media.c.marked_at.is_not(None), _before(media.c.marked_at, grace), _idle_original(grace))
    ids = await _take(session, _within(after, last), due)
    thumbnails = await _take(session, media.c.parent_id == func.any(cast(ids, ARRAY(BIGINT))), skip=False)
    # from now on the mark says when a clean-up claimed the row, see `claim_condemned`
    going = {"state": MediaState.DELETING.value, "marked_at": None}
    await session.execute(_of([*ids, *thumbnails]).values(going))
    return len(ids)


async def _take(session: AsyncSession, *conditions: ColumnElement[bool], skip: bool = True) -> list[int]:
    """Lock the rows that meet the conditions and return their ids.

    Rows that somebody else holds are skipped: they are about to be touched. A row that changed since the
    statement began is looked at anew, so that one taken by a draft a moment ago no longer matches.
    """
    query = select(media.c.id).where(*conditions).order_by(media.c.id).with_for_update(skip_locked=skip)
    return list(await session.scalars(query))


def _of(ids: Sequence[int]) -> Update:
    return update(media).where(media.c.id == func.any(cast(list(ids), ARRAY(BIGINT))))


async def claim_condemned(session: AsyncSession, limit: int, lease: timedelta) -> Sequence[Any]:
    """Take (id, key, size_bytes) of rows whose objects are to be deleted; thumbnails before their original.

    Nobody else is given a row for the length of the lease. Two clean-ups at one row would lose an image: the
    slower one deletes the object that was uploaded anew after the quicker one had removed the row.
    """
    thumbnail = media.alias("thumbnail")
    query = (
        select(media.c.id, media.c.key, media.c.size_bytes)
        .where(
            media.c.state == MediaState.DELETING.value,
            or_(media.c.marked_at.is_(None), _before(media.c.marked_at, lease)),
            ~exists(select(1).where(thumbnail.c.parent_id == media.c.id)),
        )
        .order_by(media.c.id)
        .limit(limit)
        .with_for_update(of=media, skip_locked=True)
    )
    rows = (await session.execute(query)).all()
    await session.execute(_of([row.id for row in rows]).values(marked_at=func.now()))
    return rows


async def remove(session: AsyncSession, ids: Sequence[int]) -> None:
    """Delete rows whose objects are gone. The foreign keys RESTRICT one that is referred to after all."""
    await session.execute(
        delete(media).where(
            media.c.id == func.any(cast(list(ids), ARRAY(BIGINT))), media.c.state == MediaState.DELETING.value
        )
    )


async def due_keys(session: AsyncSession, grace: timedelta, limit: int) -> Sequence[Any]:
    """Return (key, size_bytes) of originals that may be deleted now; for a report."""
    query = (
        select(media.c.key, media.c.size_bytes)
        .where(media.c.marked_at.is_not(None), _before(media.c.marked_at, grace), _idle_original(grace))
        .order_by(media.c.id)
        .limit(limit)
    )
    return (await session.execute(query)).all()


async def live_rows(session: AsyncSession, after: int, limit: int) -> Sequence[Any]:
    """Return (id, key, sha256, size_bytes) of live rows by id."""
    query = (
        select(media.c.id, media.c.key, media.c.sha256, media.c.size_bytes)
        .where(media.c.id > after, media.c.state == MediaState.LIVE.value)
        .order_by(media.c.id)
        .limit(limit)
    )
    return (await session.execute(query)).all()
