"""The statements that read and change drafts: one text for each kind of gallery, built once."""

from __future__ import annotations

from functools import cache

from sqlalchemy import TextClause, text

from libs.common.named import Statement
from services.review.models import GalleryTables

MAX_EVENTS = 500

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
SELECT {columns}{names}{more}
FROM {source}{joined}
{rest}
"""

# The visible images of a draft, as its card in a list shows them.
_CARD = """CROSS JOIN LATERAL (
    SELECT count(*) AS image_count,
        coalesce(
            max(i.media_id) FILTER (WHERE i.media_id = d.cover_media_id),
            (array_agg(i.media_id ORDER BY i.position))[1]
        ) AS cover_id
    FROM {images} i WHERE i.draft_id = d.id AND NOT i.hidden
) card
LEFT JOIN review.media cover ON cover.id = card.cover_id
{rest}"""

# All images of a draft in order, with the fields of `DraftImage`.
_PICTURES = """CROSS JOIN LATERAL (
    SELECT array_agg(
        ROW(i.id, i.media_id, m.key, i.position, i.caption, i.original_url, i.hidden, m.content_type,
            m.size_bytes, m.width, m.height) ORDER BY i.position
    ) AS images
    FROM {images} i JOIN review.media m ON m.id = i.media_id WHERE i.draft_id = d.id
) pictures
{rest}"""

# What a change was decided by: the draft's row, and whom its names (and those it moves to) stand for.
_AS_SEEN = {
    "runway": """d.id = :draft_id AND d.revision = :revision
        AND ARRAY(SELECT root_id FROM review.brands WHERE id = ANY (CAST(:brands AS bigint[])) ORDER BY id)
            = CAST(:roots_of_brands AS bigint[])
        AND ARRAY(SELECT CAST(root_code AS text) FROM review.seasons
            WHERE code = ANY (CAST(:seasons AS text[])) ORDER BY CAST(code AS text) COLLATE "C")
            = CAST(:roots_of_seasons AS text[])""",
    "street_snap": """d.id = :draft_id AND d.revision = :revision
        AND ARRAY(SELECT root_id FROM review.cities WHERE id = ANY (CAST(:cities AS bigint[])) ORDER BY id)
            = CAST(:roots_of_cities AS bigint[])""",
}
_PLACE = {
    "runway": (
        *("brand", "brand_id", "season", "season_code"),
        *("collection", "collection_name", "collection_key"),
    ),
    "street_snap": ("city", "city_id", "year", "month"),
}

_TOLD = """
    INSERT INTO review.draft_events (kind, draft_id, revision, action, actor, reason, changes)
    SELECT '{kind}', {from_row}.id, :revision + CAST(e.number AS integer), e.action, :actor, e.reason,
        CAST(e.changes AS jsonb)
    FROM {from_row}, unnest(CAST(:actions AS text[]), CAST(:reasons AS text[]), CAST(:changes AS text[]))
        WITH ORDINALITY AS e (action, reason, changes, number)
    ORDER BY e.number
"""

_WRITE = """
WITH written AS (
    UPDATE {drafts} d
    SET title = :title, cover_media_id = :cover_media_id, {place}, status = :status,
        is_deleted = :is_deleted, decided_by = :decided_by, reject_reason = :reject_reason,
        deleted_at = CASE WHEN :deletes THEN now() ELSE CAST(:deleted_at AS timestamptz) END,
        decided_at = CASE WHEN :decides THEN now() ELSE CAST(:decided_at AS timestamptz) END,
        updated_at = CASE WHEN d.revision = :new_revision THEN d.updated_at ELSE now() END,
        revision = :new_revision
    WHERE {as_seen}
    RETURNING d.id, d.updated_at, d.decided_at, d.deleted_at
), arranged AS (
    UPDATE {images} i SET position = new.position, hidden = new.hidden, caption = new.caption
    FROM written, unnest(
        CAST(:image_ids AS bigint[]), CAST(:positions AS integer[]), CAST(:hidden AS boolean[]),
        CAST(:captions AS text[])
    ) AS new (id, position, hidden, caption)
    WHERE i.id = new.id
), told AS ({told})
SELECT updated_at, decided_at, deleted_at FROM written
"""

_LOCK = "SELECT id FROM {drafts} WHERE id = :draft_id FOR UPDATE"

_PURGE = """
WITH gone AS (DELETE FROM {drafts} d WHERE {as_seen} RETURNING d.id)
{told} RETURNING draft_id
"""

_HISTORY = """
SELECT revision, action, actor, reason, changes, created_at FROM review.draft_events
WHERE kind = :kind AND draft_id = :draft_id AND revision > :after_revision
ORDER BY id DESC LIMIT {most}
"""


def select_drafts(tables: GalleryTables, rest: str, *, source: str = "") -> str:
    """Return the query of drafts `d`, with what their keys mean and their cards (visible images, cover).

    `source` is where `d` comes from, the table unless it is given; `rest` are conditions and order.
    """
    more = ", card.image_count, coalesce(cover.key, '') AS cover_key"
    return _select(tables, more, _CARD.format(images=tables.draft_images, rest=rest), source)


def _select(tables: GalleryTables, more: str, rest: str, source: str = "") -> str:
    return _SELECT.format(
        columns=", ".join(f"d.{column.name}" for column in tables.drafts.c),
        names=_NAMES[tables.kind],
        more=more,
        source=source or f"{tables.drafts} d",
        joined=_JOINED[tables.kind],
        rest=rest,
    )


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
def look(tables: GalleryTables) -> Statement:
    """Return the query of the draft `draft_id` with its images, as `images`."""
    pictures = _PICTURES.format(images=tables.draft_images, rest="WHERE d.id = :draft_id")
    return Statement(_select(tables, ", pictures.images", pictures))


@cache
def lock(tables: GalleryTables) -> Statement:
    """Return the query that locks the row of the draft `draft_id`."""
    return Statement(_LOCK.format(drafts=tables.drafts))


@cache
def write(tables: GalleryTables) -> Statement:
    """Return the statement that makes a draft and its images what a change makes of them.

    It takes effect only while the draft is as it was seen (its `revision`, and what its names stand for), and
    then returns one row with the times of the draft. `decides` and `deletes`: the decision, the deletion is
    made now. The events take the revisions from the one after `revision` on.
    """
    return Statement(
        _WRITE.format(
            drafts=tables.drafts,
            images=tables.draft_images,
            place=", ".join(f"{name} = :{name}" for name in _PLACE[tables.kind]),
            as_seen=_AS_SEEN[tables.kind],
            told=_TOLD.format(kind=tables.kind, from_row="written"),
        )
    )


@cache
def purge(tables: GalleryTables) -> Statement:
    """Return the statement that removes a draft that is as it was seen; one row if it is gone."""
    told = _TOLD.format(kind=tables.kind, from_row="gone")
    return Statement(_PURGE.format(drafts=tables.drafts, as_seen=_AS_SEEN[tables.kind], told=told))


HISTORY = Statement(_HISTORY.format(most=MAX_EVENTS))
