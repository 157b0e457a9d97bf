"""Read and write drafts, their images and their history. SQL only; the transaction is the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    FromClause,
    Select,
    String,
    bindparam,
    cast,
    column,
    delete,
    func,
    insert,
    lateral,
    literal_column,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT, INTEGER
from sqlalchemy.ext.asyncio import AsyncSession

from services.review.drafts import Change, Draft, DraftImage
from services.review.models import RUNWAY, GalleryTables, draft_events
from services.review.models_media import media
from services.review.models_vocabulary import brands, cities, seasons
from services.review.places import RunwayPlace, RunwayTexts, StreetPlace, StreetTexts
from services.review.states import Action, Status

MAX_EVENTS = 500
# A literal and no parameter: only then does a generic plan know that a partial index covers the question.
_NOTHING: ColumnElement[str] = literal_column("''")
_OWN = (
    *("title", "is_deleted", "revision", "cover_media_id", "reject_reason"),
    *("decided_by", "decided_at", "updated_at", "deleted_at"),
)
_SAME = (*("id", "job_id", "source", "source_url", "created_at", "cover_key", "image_count"), *_OWN)


def _card(tables: GalleryTables) -> FromClause:
    """Return the count of visible images and the cover of each draft, for a lateral join."""
    images, drafts = tables.draft_images.c, tables.drafts.c
    chosen = func.coalesce(images.media_id == drafts.cover_media_id, False)
    visible = (
        select(media.c.key)
        .join(tables.draft_images, images.media_id == media.c.id)
        .where(images.draft_id == drafts.id, ~images.hidden)
        .correlate(tables.drafts)
    )
    cover = visible.order_by(chosen.desc(), images.position).limit(1).scalar_subquery()
    count = (
        select(func.count())
        .select_from(tables.draft_images)
        .where(images.draft_id == drafts.id, ~images.hidden)
        .correlate(tables.drafts)
        .scalar_subquery()
    )
    return lateral(select(count.label("image_count"), func.coalesce(cover, "").label("cover_key"))).alias(
        "card"
    )


def select_drafts(tables: GalleryTables) -> Select[Any]:
    """Return the query of drafts with what their keys mean and their cards; filters are the caller's."""
    drafts, card = tables.drafts, _card(tables)
    if tables is RUNWAY:
        root = brands.alias("root")
        query = select(
            drafts,
            card,
            brands.c.root_id.label("brand_root"),
            root.c.name.label("brand_name"),
            seasons.c.root_code.label("season_root"),
            seasons.c.known.label("season_known"),
        )
        joined = (
            drafts.outerjoin(brands, brands.c.id == drafts.c.brand_id)
            .outerjoin(root, root.c.id == brands.c.root_id)
            .outerjoin(seasons, seasons.c.code == drafts.c.season_code)
        )
    else:
        root = cities.alias("root")
        query = select(drafts, card, cities.c.root_id.label("city_root"), root.c.name.label("city_name"))
        joined = drafts.outerjoin(cities, cities.c.id == drafts.c.city_id).outerjoin(
            root, root.c.id == cities.c.root_id
        )
    return query.select_from(joined.join(card, true()))


def to_draft(tables: GalleryTables, row: Any) -> Draft:
    """Return the draft of a row of `select_drafts`."""
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


@cache
def _by_id(tables: GalleryTables) -> Select[Any]:
    """Return the query of one draft; built once, since building it costs more than running it."""
    return select_drafts(tables).where(tables.drafts.c.id == bindparam("draft_id", type_=BIGINT))


async def find(session: AsyncSession, tables: GalleryTables, draft_id: int) -> Draft | None:
    """Return the draft, deleted or not, or None when there is none."""
    row = (await session.execute(_by_id(tables), {"draft_id": draft_id})).one_or_none()
    return None if row is None else to_draft(tables, row)


async def find_by_job(session: AsyncSession, tables: GalleryTables, job_id: str) -> Draft | None:
    """Return the draft that an ingest job made, or None."""
    drafts = tables.drafts.c
    return await _first(session, tables, drafts.job_id == job_id, drafts.job_id != _NOTHING)


async def find_by_source(
    session: AsyncSession, tables: GalleryTables, source: str, source_url: str
) -> Draft | None:
    """Return the oldest draft that has the source key, whatever its status; an empty url is no key."""
    drafts = tables.drafts.c
    key = (drafts.source == source, drafts.source_url == source_url, drafts.source_url != _NOTHING)
    return await _first(session, tables, *key)


async def _first(session: AsyncSession, tables: GalleryTables, *where: ColumnElement[bool]) -> Draft | None:
    query = select_drafts(tables).where(*where).order_by(tables.drafts.c.id)
    row = (await session.execute(query)).first()
    return None if row is None else to_draft(tables, row)


async def lock_and_find(session: AsyncSession, tables: GalleryTables, draft_id: int) -> Draft | None:
    """Lock the draft's row, then read it.

    Two statements: a join that waited for the lock would show the joined rows as they were before.
    """
    await session.execute(select(tables.drafts.c.id).where(tables.drafts.c.id == draft_id).with_for_update())
    return await find(session, tables, draft_id)


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
    images = tables.draft_images
    facts = [media.c.content_type, media.c.size_bytes, media.c.width, media.c.height]
    query = (
        select(images, media.c.key.label("media_key"), *facts)
        .join(media, media.c.id == images.c.media_id)
        .where(images.c.draft_id == draft_id)
        .order_by(images.c.position)
    )
    rows = (await session.execute(query)).mappings()
    return [DraftImage(**{k: v for k, v in row.items() if k != "draft_id"}) for row in rows]


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
    session: AsyncSession,
    draft: tuple[str, int, int],
    action: Action,
    actor: str,
    *,
    reason: str = "",
    changes: Sequence[Change] = (),
) -> None:
    """Write one entry of the history; `draft` is its kind, id and revision after the event."""
    kind, draft_id, revision = draft
    await session.execute(
        insert(draft_events).values(
            kind=kind,
            draft_id=draft_id,
            revision=revision,
            action=action.value,
            actor=actor,
            reason=reason,
            changes=[[change.field, change.before, change.after] for change in changes],
        )
    )


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
