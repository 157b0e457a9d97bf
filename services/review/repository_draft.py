"""Find drafts that a crawl meets, and insert new ones. SQL only; the transaction is the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import TextClause, insert
from sqlalchemy.ext.asyncio import AsyncSession

from services.review import statements_draft
from services.review.drafts import Draft
from services.review.models import RUNWAY, GalleryTables, draft_events
from services.review.places import Place, RunwayPlace, RunwayTexts, StreetPlace, StreetTexts
from services.review.states import Action, Status

_SAME = (
    *("id", "job_id", "source", "source_url", "title", "is_deleted", "revision", "cover_media_id"),
    *("reject_reason", "decided_by", "decided_at", "created_at", "updated_at", "deleted_at"),
    "trace_parent",
)


def to_draft(tables: GalleryTables, row: Any, *, image_count: int, cover_key: str) -> Draft:
    """Return the draft of a row of `statements_draft`, and what its card shows."""
    return Draft(
        kind=tables.kind,
        place=to_place(tables, row),
        status=Status(row["status"]),
        image_count=image_count,
        cover_key=cover_key,
        **{name: row[name] for name in _SAME},
    )


def to_place(tables: GalleryTables, row: Any) -> Place:
    """Return the place of a row of `statements_draft`."""
    if tables is RUNWAY:
        return RunwayPlace(
            texts=RunwayTexts(row["brand"], row["season"], row["collection"]),
            brand_id=row["brand_id"],
            brand_root=row["brand_root"],
            brand_name=row["brand_name"] or "",
            season_code=row["season_code"],
            season_root=row["season_root"],
            season_known=bool(row["season_known"]),
            collection_name=row["collection_name"],
        )
    return StreetPlace(
        texts=StreetTexts(row["city"], row["year"], row["month"]),
        city_id=row["city_id"],
        city_root=row["city_root"],
        city_name=row["city_name"] or "",
    )


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
    row = (await session.execute(query, values)).mappings().first()
    if row is None:
        return None
    return to_draft(tables, row, image_count=row["image_count"], cover_key=row["cover_key"])


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


async def record_creation(session: AsyncSession, tables: GalleryTables, draft_id: int, actor: str) -> None:
    """Write the first entry of a draft's history."""
    values = {"kind": tables.kind, "draft_id": draft_id, "revision": 1}
    told = {"action": Action.CREATED.value, "actor": actor}
    await session.execute(insert(draft_events).values(**values, **told))
