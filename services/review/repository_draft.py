"""Read and write drafts, their images and their history. SQL only; the transaction is the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    String,
    TextClause,
    cast,
    column,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT, INTEGER
from sqlalchemy.ext.asyncio import AsyncSession

from services.review import statements_draft
from services.review.drafts import Change, Draft, DraftImage
from services.review.models import RUNWAY, GalleryTables, draft_events
from services.review.places import RunwayPlace, RunwayTexts, StreetPlace, StreetTexts
from services.review.states import TRANSITIONS, Action, Status

MAX_EVENTS = 500
_OWN = (
    *("title", "is_deleted", "revision", "cover_media_id", "reject_reason"),
    *("decided_by", "decided_at", "updated_at", "deleted_at"),
)
_SAME = (*("id", "job_id", "source", "source_url", "created_at", "cover_key", "image_count"), *_OWN)


@dataclass(frozen=True)
class Entry:
    """An entry of the history: who did what, why, and which fields it changed."""

    action: Action
    actor: str
    reason: str = ""
    changes: Sequence[Change] = ()


def to_draft(tables: GalleryTables, row: Any) -> Draft:
    """Return the draft of a row of `statements_draft.select_drafts`."""
    if tables is RUNWAY:
        place: RunwayPlace | StreetPlace = RunwayPlace(
            texts=RunwayTexts(row.brand, row.season, row.collection),
            brand_id=row.brand_id,
            brand_root=row.brand_root,
            brand_name=row.brand_name or "",
            season_code=row.season_code,
            season_root=row.season_root,
            season_known=bool(row.season_known),
            collection_name=row.collection_name,
        )
    else:
        place = StreetPlace(
            texts=StreetTexts(row.city, row.year, row.month),
            city_id=row.city_id,
            city_root=row.city_root,
            city_name=row.city_name or "",
        )
    return Draft(
        kind=tables.kind,
        place=place,
        status=Status(row.status),
        **{name: getattr(row, name) for name in _SAME},
    )


async def find(session: AsyncSession, tables: GalleryTables, draft_id: int) -> Draft | None:
    """Return the draft, deleted or not, or None when there is none."""
    return await _first(session, tables, statements_draft.by_id(tables), draft_id=draft_id)


async def find_by_job(session: AsyncSession, tables: GalleryTables, job_id: str) -> Draft | None:
    """Return the draft that an ingest job made, or None."""
    return await _first(session, tables, statements_draft.by_job(tables), job_id=job_id)


async def find_by_source(
    session: AsyncSession, tables: GalleryTables, source: str, source_url: str
) -> Draft | None:
    """Return the oldest draft that has the source key, whatever its status; an empty url is no key."""
    query = statements_draft.by_source(tables)
    return await _first(session, tables, query, source=source, source_url=source_url)


async def _first(
    session: AsyncSession, tables: GalleryTables, query: TextClause, **values: object
) -> Draft | None:
    row = (await session.execute(query, values)).first()
    return None if row is None else to_draft(tables, row)


async def lock_and_find(session: AsyncSession, tables: GalleryTables, seen: Draft) -> Draft | None:
    """Lock the draft's row and read it; `seen` is the draft as it was read before the locks of its key.

    A statement that had to wait for the row returns the new row joined with what was there before. Every
    writer of the row raises its revision, so that one is read again.
    """
    query = statements_draft.by_id_locked(tables)
    found = await _first(session, tables, query, draft_id=seen.id)
    if found is None or found.revision == seen.revision:
        return found
    return await find(session, tables, seen.id)


async def insert_draft(session: AsyncSession, tables: GalleryTables, values: Mapping[str, object]) -> int:
    """Insert a draft; return its id. Raises IntegrityError with the name of the index that refused it."""
    statement = insert(tables.drafts).values(**values).returning(tables.drafts.c.id)
    return int((await session.execute(statement)).scalar_one())


async def insert_images(
    session: AsyncSession, tables: GalleryTables, draft_id: int, images: Iterable[Mapping[str, object]]
) -> None:
    """Insert the images of a new draft in their order."""
    rows = [{"draft_id": draft_id, "position": i, **image} for i, image in enumerate(images)]
    await session.execute(insert(tables.draft_images), rows)


async def images_of(session: AsyncSession, tables: GalleryTables, draft_id: int) -> list[DraftImage]:
    """Return a draft's images in order, hidden ones too."""
    rows = await session.execute(statements_draft.images(tables), {"draft_id": draft_id})
    return [DraftImage(*row) for row in rows]


async def write(
    session: AsyncSession, tables: GalleryTables, draft: Draft, values: Mapping[str, object]
) -> Draft | None:
    """Change the draft's columns and raise its revision; return it with its own columns renewed.

    Place, cover and count of images are as before: read it again after changing those. Takes effect only
    while the row is as `draft` says (revision, status, deletion); None otherwise.
    """
    drafts = tables.drafts.c
    statement = (
        update(tables.drafts)
        .where(
            drafts.id == draft.id,
            drafts.revision == draft.revision,
            drafts.status == draft.status.value,
            drafts.is_deleted == draft.is_deleted,
        )
        .values(**values, revision=drafts.revision + 1, updated_at=func.now())
        .returning(drafts.status, *(drafts[name] for name in _OWN))
    )
    row = (await session.execute(statement)).mappings().one_or_none()
    if row is None:
        return None
    return replace(draft, **{**row, "status": Status(row["status"])})


async def act(
    session: AsyncSession, tables: GalleryTables, draft: Draft, entry: Entry, *, reject_reason: str = ""
) -> Draft | None:
    """Decide, take a decision back, delete or undelete, and write the entry of the history.

    Takes effect only while the row is as `draft` says (revision, status, deletion); None otherwise.
    """
    transition = TRANSITIONS.get(entry.action)
    status = draft.status if transition is None else transition[1]
    deleted = draft.is_deleted if transition is not None else entry.action is Action.DELETED
    decided = transition is not None and entry.action is not Action.REOPENED
    values = {
        **{"draft_id": draft.id, "revision": draft.revision, "status": draft.status.value},
        **{"is_deleted": draft.is_deleted, "new_status": status.value, "deleted": deleted},
        **{"decides": transition is not None, "decided": decided, "reject_reason": reject_reason},
        **{"decided_by": entry.actor if decided else "", "action": entry.action.value},
        **{"actor": entry.actor, "reason": entry.reason},
    }
    row = (await session.execute(statements_draft.act(tables), values)).mappings().one_or_none()
    return None if row is None else replace(draft, **{**row, "status": status})


async def write_images(session: AsyncSession, tables: GalleryTables, images: Sequence[DraftImage]) -> None:
    """Set position, hidden and caption of the images, in one statement that may pass through duplicates."""
    kinds = {"id": BIGINT, "position": INTEGER, "hidden": Boolean, "caption": String}
    arrays: list[ColumnElement[Any]] = [
        cast([getattr(image, name) for image in images], ARRAY(kind)) for name, kind in kinds.items()
    ]
    new = (
        func.unnest(*arrays)
        .table_valued(*(column(n, k) for n, k in kinds.items()), name="new")
        .render_derived()
    )
    await session.execute(
        update(tables.draft_images)
        .where(tables.draft_images.c.id == new.c.id)
        .values(position=new.c.position, hidden=new.c.hidden, caption=new.c.caption)
    )


async def purge(session: AsyncSession, tables: GalleryTables, draft: Draft) -> bool:
    """Remove the draft and its images for good; False when it changed meanwhile."""
    drafts = tables.drafts.c
    statement = delete(tables.drafts).where(drafts.id == draft.id, drafts.revision == draft.revision)
    return (await session.execute(statement.returning(drafts.id))).scalar_one_or_none() is not None


async def record(
    session: AsyncSession, tables: GalleryTables, draft_id: int, revision: int, entry: Entry
) -> None:
    """Write an entry of the history; `revision` is the draft's after the event."""
    values = {"kind": tables.kind, "draft_id": draft_id, "revision": revision}
    changes = [[change.field, change.before, change.after] for change in entry.changes]
    told = {"action": entry.action.value, "actor": entry.actor, "reason": entry.reason, "changes": changes}
    await session.execute(insert(draft_events).values(**values, **told))


async def history(
    session: AsyncSession, kind: str, draft_id: int, *, after_revision: int = 0
) -> Sequence[Any]:
    """Return the newest events after a revision, oldest first; at most 500."""
    newest = (
        select(draft_events)
        .where(
            draft_events.c.kind == kind,
            draft_events.c.draft_id == draft_id,
            draft_events.c.revision > after_revision,
        )
        .order_by(draft_events.c.id.desc())
        .limit(MAX_EVENTS)
    )
    return list(reversed((await session.execute(newest)).all()))
