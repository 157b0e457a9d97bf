"""Find and remove media rows that nothing refers to (domain.md 4.9). SQL only, in windows of ids.

A reference is an image of a draft, deleted drafts included, or of an official row. Thumbnails have none of
their own: they go with their original.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Update,
    and_,
    cast,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.dml import ReturningUpdate

from services.review.models import RUNWAY, STREET
from services.review.models_media import media
from services.review.states import MediaState


@dataclass(frozen=True)
class Counts:
    """How many originals of a window may be marked, and how many deleted (with bytes)."""

    to_mark: int = 0
    to_delete: int = 0
    bytes_to_delete: int = 0


@dataclass(frozen=True)
class Window:
    """A stretch of ids, without its first and with its last."""

    after: int
    last: int


_IMAGES = [images for t in (RUNWAY, STREET) for images in (t.draft_images, t.official_images)]
# A literal: only then does a generic plan know that the partial index covers the question.
_DELETING: ColumnElement[str] = literal_column(f"'{MediaState.DELETING.value}'")


def _unreferenced(window: Window | None) -> ColumnElement[bool]:
    """Return the condition that nothing refers to an original.

    Each kind of reference is a condition of its own, which is an anti-join; joined by OR they were sub-plans
    that read a whole table for a window. The window stands on their side too: a stretch of their index.
    """
    conditions = []
    for images in _IMAGES:
        here = [images.c.media_id == media.c.id]
        if window is not None:
            here += [images.c.media_id > window.after, images.c.media_id <= window.last]
        conditions.append(~exists(select(1).where(*here)))
    return and_(*conditions)


def _referenced(window: Window) -> ColumnElement[bool]:
    here = [
        select(images.c.media_id).where(images.c.media_id > window.after, images.c.media_id <= window.last)
        for images in _IMAGES
    ]
    return media.c.id.in_(union_all(*here))


def _before(column: ColumnElement[Any], grace: timedelta) -> ColumnElement[bool]:
    return column < func.now() - grace


def _idle_original(grace: timedelta, window: Window | None) -> ColumnElement[bool]:
    """Return the condition of an original that nothing refers to and nobody touched for a grace."""
    return and_(
        media.c.parent_id.is_(None),
        media.c.state != MediaState.DELETING.value,
        _before(media.c.touched_at, grace),
        _unreferenced(window),
    )


def _due(grace: timedelta, window: Window | None) -> ColumnElement[bool]:
    """Return the condition of an original that stayed marked and idle for a grace."""
    return and_(
        media.c.marked_at.is_not(None), _before(media.c.marked_at, grace), _idle_original(grace, window)
    )


def _within(window: Window) -> ColumnElement[bool]:
    return and_(media.c.id > window.after, media.c.id <= window.last)


async def commit_later(session: AsyncSession) -> None:
    """Let the transaction's locks go without a wait for the disk; a crash may undo its last half second.

    For what the next pass would do again: marks, rows that are condemned, rows whose objects are gone.
    """
    await session.execute(text("SET LOCAL synchronous_commit = off"))


async def next_window(session: AsyncSession, after: int, rows: int) -> Window | None:
    """Return the next window of so many rows after `after`, None when there are none."""
    ids = select(media.c.id).where(media.c.id > after).order_by(media.c.id).limit(rows).subquery()
    last: int | None = await session.scalar(select(func.max(ids.c.id)))
    return None if last is None else Window(after, last)


async def count_originals(session: AsyncSession) -> int:
    """Return how many originals there are."""
    query = select(func.count()).select_from(media).where(media.c.parent_id.is_(None))
    return int((await session.execute(query)).scalar_one())


async def count_due(session: AsyncSession, grace: timedelta, most: int) -> int:
    """Return how many originals would be deleted now, counting no further than `most`."""
    due = select(media.c.id).where(_due(grace, None)).limit(most).subquery()
    return int((await session.execute(select(func.count()).select_from(due))).scalar_one())


async def count(session: AsyncSession, window: Window, grace: timedelta) -> Counts:
    """Return the counts of a window; reads only."""
    due = and_(media.c.marked_at.is_not(None), _before(media.c.marked_at, grace))
    query = select(
        func.count().filter(media.c.marked_at.is_(None)),
        func.count().filter(due),
        func.coalesce(func.sum(media.c.size_bytes).filter(due), 0),
    ).where(_within(window), _idle_original(grace, window))
    to_mark, to_delete, size = (await session.execute(query)).one()
    return Counts(to_mark, to_delete, int(size))


async def mark(session: AsyncSession, window: Window, grace: timedelta) -> int:
    """Mark a window's idle originals; return how many are new. Those that are referred to lose their mark."""
    again = (_within(window), media.c.marked_at.is_not(None), _referenced(window))
    await session.execute(_change(again, marked_at=None))
    idle = (_within(window), media.c.marked_at.is_(None), _idle_original(grace, window))
    return len((await session.execute(_change(idle, marked_at=func.now()))).all())


async def condemn(session: AsyncSession, window: Window, grace: timedelta) -> int:
    """Make a window's originals that stayed marked for a grace `deleting`, thumbnails with them."""
    ids = await _take(session, _within(window), _due(grace, window))
    if not ids:
        return 0
    below = media.c.parent_id == func.any(cast(ids, ARRAY(BIGINT)))
    taken = set(await _take(session, below))
    thumbnails = (await session.execute(select(media.c.id, media.c.parent_id).where(below))).all()
    # Who holds a thumbnail may want its original next: waiting would be a deadlock; the next pass gets it.
    held = {row.parent_id for row in thumbnails if row.id not in taken}
    going = [row_id for row_id in ids if row_id not in held]
    going += [row.id for row in thumbnails if row.parent_id not in held]
    # from now on the mark says when a clean-up claimed the row, see `claim_condemned`
    await session.execute(_of(going).values(state=MediaState.DELETING.value, marked_at=None))
    return len(ids) - len(held)


def _taken(*conditions: ColumnElement[bool]) -> Select[Any]:
    """Return the query that locks the rows that meet the conditions and gives their ids.

    Rows that somebody else holds are skipped: they are about to be touched. A row that changed since the
    statement began is looked at anew, so that one taken by a draft a moment ago no longer matches.
    """
    query = select(media.c.id).where(*conditions).order_by(media.c.id)
    return query.with_for_update(of=media, skip_locked=True)


async def _take(session: AsyncSession, *conditions: ColumnElement[bool]) -> list[int]:
    return list(await session.scalars(_taken(*conditions)))


def _change(conditions: Sequence[ColumnElement[bool]], **values: object) -> ReturningUpdate[Any]:
    """Return the statement that takes rows and changes them at once."""
    taken = _taken(*conditions).cte("taken")
    return update(media).where(media.c.id == taken.c.id).values(**values).returning(media.c.id)


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
            media.c.state == _DELETING,
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
    query = select(media.c.key, media.c.size_bytes).where(_due(grace, None)).order_by(media.c.id).limit(limit)
    return (await session.execute(query)).all()


async def is_live(session: AsyncSession, media_id: int) -> bool:
    """Tell whether the row is there and live now."""
    query = select(media.c.id).where(media.c.id == media_id, media.c.state == MediaState.LIVE.value)
    return (await session.execute(query)).one_or_none() is not None


async def live_rows(session: AsyncSession, after: int, limit: int) -> Sequence[Any]:
    """Return (id, key, sha256, size_bytes) of live rows by id."""
    query = (
        select(media.c.id, media.c.key, media.c.sha256, media.c.size_bytes)
        .where(media.c.id > after, media.c.state == MediaState.LIVE.value)
        .order_by(media.c.id)
        .limit(limit)
    )
    return (await session.execute(query)).all()
