"""The statements that read and decide drafts: one text for each kind of gallery, built and compiled once."""

from __future__ import annotations

from functools import cache

from sqlalchemy import TextClause, text

from services.review.models import GalleryTables

# What a draft's key texts mean, beside its own columns.
_NAMES = {
    "runway": """, brand.root_id AS brand_root, root.name AS brand_name,
    season.root_code AS season_root, season.known AS season_known""",
    "street_snap": ", city.root_id AS city_root, root.name AS city_name",
}
_JOINED = {
    "runway": """
LEFT JOIN review.brands brand ON brand.id = d.brand_id
LEFT JOIN review.brands root ON root.id = brand.root_id
LEFT JOIN review.seasons season ON season.code = d.season_code""",
    "street_snap": """
LEFT JOIN review.cities city ON city.id = d.city_id
LEFT JOIN review.cities root ON root.id = city.root_id""",
}

_SELECT = """
SELECT {columns}, card.image_count, coalesce(cover.key, '') AS cover_key{names}
FROM {source}{joined}
CROSS JOIN LATERAL (
    SELECT count(*) AS image_count,
        coalesce(
            max(i.media_id) FILTER (WHERE i.media_id = d.cover_media_id),
            (array_agg(i.media_id ORDER BY i.position))[1]
        ) AS cover_id
    FROM {images} i WHERE i.draft_id = d.id AND NOT i.hidden
) card
LEFT JOIN review.media cover ON cover.id = card.cover_id
{rest}
"""

_IMAGES = """
SELECT i.id, i.media_id, m.key AS media_key, i.position, i.caption, i.original_url, i.hidden,
    m.content_type, m.size_bytes, m.width, m.height
FROM {images} i JOIN review.media m ON m.id = i.media_id
WHERE i.draft_id = :draft_id ORDER BY i.position
"""

_ACT = """
WITH written AS (
    UPDATE {drafts}
    SET status = :new_status, is_deleted = :deleted,
        deleted_at = CASE WHEN :deleted THEN coalesce(deleted_at, now()) END,
        decided_by = CASE WHEN :decides THEN :decided_by ELSE decided_by END,
        decided_at = CASE WHEN NOT :decides THEN decided_at WHEN :decided THEN now() END,
        reject_reason = CASE WHEN :decides THEN :reject_reason ELSE reject_reason END,
        revision = revision + 1, updated_at = now()
    WHERE id = :draft_id AND revision = :revision AND status = :status AND is_deleted = :is_deleted
    RETURNING id, status, is_deleted, deleted_at, decided_by, decided_at, reject_reason, revision,
        updated_at
), told AS (
    INSERT INTO review.draft_events (kind, draft_id, revision, action, actor, reason)
    SELECT '{kind}', id, revision, :action, :actor, :reason FROM written
)
SELECT status, is_deleted, deleted_at, decided_by, decided_at, reject_reason, revision, updated_at
FROM written
"""


def select_drafts(tables: GalleryTables, rest: str, *, source: str = "") -> str:
    """Return the query of drafts `d`, with what their keys mean and their cards (visible images, cover).

    `source` is where `d` comes from, the table unless it is given; `rest` are conditions and order.
    """
    return _SELECT.format(
        columns=", ".join(f"d.{column.name}" for column in tables.drafts.c),
        names=_NAMES[tables.kind],
        source=source or f"{tables.drafts} d",
        joined=_JOINED[tables.kind],
        images=tables.draft_images,
        rest=rest,
    )


@cache
def by_id(tables: GalleryTables) -> TextClause:
    """Return the query of the draft `draft_id`."""
    return text(select_drafts(tables, "WHERE d.id = :draft_id"))


@cache
def by_id_locked(tables: GalleryTables) -> TextClause:
    """Return the query of the draft `draft_id` that locks its row."""
    return text(select_drafts(tables, "WHERE d.id = :draft_id FOR UPDATE OF d"))


@cache
def by_job(tables: GalleryTables) -> TextClause:
    """Return the query of the draft of the ingest job `job_id`.

    The literal in the condition, here and below, lets a generic plan know that the partial index covers it.
    """
    return text(select_drafts(tables, "WHERE d.job_id = :job_id AND d.job_id <> ''"))


@cache
def by_source(tables: GalleryTables) -> TextClause:
    """Return the query of the drafts with a source key, the oldest first."""
    here = "d.source = :source AND d.source_url = :source_url AND d.source_url <> ''"
    return text(select_drafts(tables, f"WHERE {here} ORDER BY d.id LIMIT 1"))


@cache
def images(tables: GalleryTables) -> TextClause:
    """Return the query of the images of the draft `draft_id` in order, with the fields of `DraftImage`."""
    return text(_IMAGES.format(drafts=tables.drafts, images=tables.draft_images, kind=tables.kind))


@cache
def act(tables: GalleryTables) -> TextClause:
    """Return the statement of one action with its entry of the history.

    It takes effect only while the row is as it was read (`revision`, `status`, `is_deleted`). `decides`: the
    action gives or takes back a decision; `decided`: there is one afterwards.
    """
    return text(_ACT.format(drafts=tables.drafts, images=tables.draft_images, kind=tables.kind))
