"""Media rows: what is announced, stored and shown (domain.md 4.9). SQL only; no store access here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    String,
    case,
    cast,
    column,
    exists,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from services.review import repository_similar
from services.review.errors import (
    ContentMismatch,
    MediaBeingDeleted,
    MediaNotLive,
    MediaNotReserved,
    ParentNotFound,
)
from services.review.models import RUNWAY, STREET
from services.review.models_media import media
from services.review.states import MediaState

RETRY_SECONDS = 5.0
_COLUMNS = {
    "key": String,
    "sha256": String,
    "size_bytes": BIGINT,
    "content_type": String,
    "width": Integer,
    "height": Integer,
    "parent_id": BIGINT,
    "dhash": BIGINT,
}


@dataclass(frozen=True)
class NewMedia:
    """An object about to be stored. `parent_key` is empty for originals, `dhash` None when unknown."""

    key: str
    sha256: str
    size_bytes: int
    content_type: str
    width: int
    height: int
    parent_key: str
    dhash: int | None = None


@dataclass(frozen=True)
class Reservation:
    """Where an announced object stands. `row_id` is the row's: one that is made anew has another."""

    state: MediaState
    row_id: int


async def reserve(session: AsyncSession, job_id: str, items: Sequence[NewMedia]) -> dict[str, Reservation]:
    """Create or un-mark the rows, touch them, and return where each key stands.

    Raises:
        ContentMismatch: an original was announced under the key with other bytes; nothing is overwritten.
        MediaBeingDeleted: the clean-up is at one of them.
        ParentNotFound: a thumbnail's original is neither known nor among the items.
    """
    originals = [item for item in items if not item.parent_key]
    thumbnails = [item for item in items if item.parent_key]
    states = await _announce(session, job_id, originals, {})
    if thumbnails:
        parents = await _parents(session, {item.parent_key for item in thumbnails})
        states |= await _announce(session, job_id, thumbnails, parents)
    return states


async def _parents(session: AsyncSession, keys: Iterable[str]) -> dict[str, int]:
    wanted = sorted(keys)
    query = (
        select(media.c.key, media.c.id, media.c.state)
        .where(media.c.key.in_(wanted), media.c.parent_id.is_(None))
        .order_by(media.c.key)
        .with_for_update(read=True)  # or the clean-up could condemn the parent without its new thumbnail
    )
    rows = {row.key: row for row in await session.execute(query)}
    for key in wanted:
        if key not in rows:
            raise ParentNotFound(f"the original {key!r} must be announced before its thumbnails", key=key)
        if rows[key].state == MediaState.DELETING.value:
            raise being_deleted(key)
    return {key: int(row.id) for key, row in rows.items()}


async def _announce(
    session: AsyncSession, job_id: str, items: Sequence[NewMedia], parents: dict[str, int]
) -> dict[str, Reservation]:
    """Insert or touch the rows in the order of their keys, so that two calls never wait for each other."""
    if not items:
        return {}
    ordered = sorted(items, key=lambda item: item.key)
    values = {name: [getattr(item, name, None) for item in ordered] for name in _COLUMNS}
    values["parent_id"] = [parents.get(item.parent_key) for item in ordered]
    arrays: list[ColumnElement[Any]] = [cast(values[name], ARRAY(kind)) for name, kind in _COLUMNS.items()]
    listed = (
        func.unnest(*arrays)
        .table_valued(*(column(n, k) for n, k in _COLUMNS.items()), name="listed")
        .render_derived()
    )
    source = select(*(listed.c[name] for name in _COLUMNS), literal(job_id))
    statement = upsert(media).from_select(
        [*_COLUMNS, "job_id"], source.select_from(listed).order_by(listed.c.key)
    )
    # A thumbnail's bytes may differ between releases of the encoder: before it is stored the newest count.
    renewed = (media.c.parent_id.is_not(None)) & (media.c.state == MediaState.RESERVED.value)
    new = statement.excluded
    statement = statement.on_conflict_do_update(
        constraint="uq_media_key",
        set_={
            "touched_at": func.now(),
            "marked_at": None,
            "job_id": new.job_id,
            "dhash": func.coalesce(media.c.dhash, new.dhash),
            "sha256": _case(renewed, new.sha256, media.c.sha256),
            "size_bytes": _case(renewed, new.size_bytes, media.c.size_bytes),
        },
    )
    rows = {row.key: row for row in await session.execute(statement.returning(media))}
    states = {item.key: _accept(item, rows[item.key], parents) for item in items}
    hashed = [rows[item.key] for item in items if item.dhash is not None and not item.parent_key]
    await repository_similar.keep_bands(session, {row.id: row.dhash for row in hashed})
    return states


def _case(condition: ColumnElement[bool], yes: Any, no: Any) -> ColumnElement[Any]:
    return case((condition, yes), else_=no)


def _accept(item: NewMedia, row: Any, parents: dict[str, int]) -> Reservation:
    if row.state == MediaState.DELETING.value:
        raise being_deleted(item.key)
    same_parent = row.parent_id == parents.get(item.parent_key)
    # a stored thumbnail stays as it is, whoever's encoder made it; an original must be the same bytes
    same_bytes = bool(item.parent_key) or (row.sha256, row.size_bytes) == (item.sha256, item.size_bytes)
    if not same_parent or not same_bytes:
        raise ContentMismatch(
            f"{item.key!r} was announced with other bytes (sha256 {row.sha256}, {row.size_bytes} bytes); "
            "stored objects are never overwritten",
            key=item.key,
            sha256=row.sha256,
        )
    return Reservation(MediaState(row.state), int(row.id))


def being_deleted(key: str) -> MediaBeingDeleted:
    """Return the refusal for an object that the clean-up is deleting."""
    return MediaBeingDeleted(
        f"{key!r} is being deleted; try again shortly", retry_delay_seconds=RETRY_SECONDS, key=key
    )


async def confirm(session: AsyncSession, keys: Sequence[str], row_ids: Mapping[str, int]) -> None:
    """Make announced rows live; repeating it only touches them. `row_ids` are those of the reservations.

    A row that was removed and announced anew by somebody else has another id: what was stored for the first
    one is gone with it, and confirming the second would make a live row without bytes.

    Raises:
        MediaNotReserved: a key was never announced, or its row was removed since.
        MediaBeingDeleted: the clean-up is at one of them.
    """
    rows = await _locked(session, keys)
    for key in keys:
        if key not in rows or row_ids.get(key, rows[key].id) != rows[key].id:
            told = "was never announced, or cleaned up since; reserve it and store it (again)"
            raise MediaNotReserved(f"{key!r} {told}", key=key)
        if rows[key].state == MediaState.DELETING.value:
            raise being_deleted(key)
    await _touch(session, [row.id for row in rows.values()], state=MediaState.LIVE.value)


async def take_for_draft(session: AsyncSession, keys: Sequence[str]) -> dict[str, int]:
    """Lock, touch and un-mark the rows that a draft is about to refer to; return their ids by key.

    Raises:
        MediaNotLive: an object isn't stored, or is a thumbnail.
    """
    rows = await _locked(session, keys)
    for key in keys:
        row = rows.get(key)
        if row is None or row.state != MediaState.LIVE.value or row.parent_id is not None:
            state = "unknown" if row is None else "thumbnail" if row.parent_id is not None else row.state
            raise MediaNotLive(
                f"{key!r} can't be an image of a draft: it is {state}; reserve, store and confirm it first",
                key=key,
                state=state,
            )
    await _touch(session, [row.id for row in rows.values()])
    return {key: int(row.id) for key, row in rows.items()}


async def _locked(session: AsyncSession, keys: Sequence[str]) -> dict[str, Any]:
    wanted = cast(sorted(set(keys)), ARRAY(String))
    # NO KEY: a promotion that refers to the same rows in another order must not wait for it, or both deadlock
    query = select(media).where(media.c.key == func.any(wanted)).with_for_update(key_share=True)
    # in the order of `reserve`, originals first: else an announcement of the same images could deadlock it
    query = query.order_by(media.c.parent_id.is_not(None), media.c.key)
    return {row.key: row for row in await session.execute(query)}


async def _touch(session: AsyncSession, ids: Sequence[int], **more: object) -> None:
    await session.execute(
        update(media)
        .where(media.c.id == func.any(cast(sorted(ids), ARRAY(BIGINT))))
        .values(touched_at=func.now(), marked_at=None, **more)
    )


def _shown_by_draft() -> ColumnElement[bool]:
    return or_(*(exists(select(1).where(t.draft_images.c.media_id == media.c.id)) for t in (RUNWAY, STREET)))


def _shown_to_public() -> ColumnElement[bool]:
    return or_(
        *(
            exists(
                select(1)
                .select_from(t.official_images.join(t.officials))
                .where(t.official_images.c.media_id == media.c.id, ~t.officials.c.is_hidden)
            )
            for t in (RUNWAY, STREET)
        )
    )


async def find_shown(session: AsyncSession, key: str, *, public: bool) -> Any:
    """Return the live original under the key when a draft (or a visible official row) shows it, else None."""
    shown = _shown_to_public() if public else _shown_by_draft()
    query = select(media).where(
        media.c.key == key, media.c.state == MediaState.LIVE.value, media.c.parent_id.is_(None), shown
    )
    return (await session.execute(query)).one_or_none()


async def find_thumbnail(session: AsyncSession, original_id: int, min_width: int) -> Any:
    """Return the narrowest live thumbnail of at least that width, else the widest, or None without any."""
    wide_enough = media.c.width >= min_width
    query = (
        select(media)
        .where(media.c.parent_id == original_id, media.c.state == MediaState.LIVE.value)
        .order_by(wide_enough.desc(), _case(wide_enough, media.c.width, -media.c.width))
        .limit(1)
    )
    return (await session.execute(query)).one_or_none()
