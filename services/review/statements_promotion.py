"""The statements of promotion, one text for each kind of gallery.

An official row is recomputed by one statement inside the database: the images never travel, and only rows
that differ are written. Its shape is chosen so that no plan compares each image with each: a FULL JOIN by
position can only be a merge or a hash, and what is deleted is named by an array of ids.
"""

from __future__ import annotations

from functools import cache

from libs.common.named import Statement
from services.review.models import RUNWAY, GalleryTables

# The names of a key stand for those merged into them. OFFSET 0 keeps the look-up of each name's drafts one of
# its own, at one point of the siblings' index, whatever the statistics say and also when there are none.
_NAMED = {
    "runway": """(SELECT id FROM review.brands WHERE root_id = :brand_id) brand
    CROSS JOIN (SELECT code FROM review.seasons WHERE root_code = :season_code) season""",
    "street_snap": "(SELECT id FROM review.cities WHERE root_id = :city_id) city",
}
_HAS_KEY = {
    "runway": "brand_id = brand.id AND season_code = season.code AND collection_key = :collection_key",
    "street_snap": "city_id = city.id AND year = :year AND month = :month",
}

_RECOMPUTE = """
WITH siblings AS MATERIALIZED (
    SELECT d.id, d.title, d.cover_media_id, d.collection
    FROM {named} CROSS JOIN LATERAL (
        SELECT id, title, cover_media_id, {collection_of_draft} AS collection FROM {drafts}
        WHERE status = 'approved' AND NOT is_deleted AND {has_key} OFFSET 0
    ) d
), firsts AS (
    SELECT DISTINCT ON (i.media_id) i.media_id, i.caption, i.draft_id, i.position
    FROM siblings s CROSS JOIN LATERAL (
        SELECT media_id, caption, draft_id, position FROM {draft_images}
        WHERE draft_id = s.id AND NOT hidden OFFSET 0
    ) i
    ORDER BY i.media_id, i.draft_id, i.position
), wanted AS MATERIALIZED (
    SELECT CAST(row_number() OVER (ORDER BY draft_id, position) - 1 AS integer) AS position,
        media_id, caption, draft_id
    FROM firsts
), facts AS MATERIALIZED (
    SELECT s.title, s.collection, CAST((SELECT count(*) FROM wanted) AS integer) AS image_count,
        coalesce(
            -- as on its draft's card: a choice that its own draft hides is none, whoever else shows the image
            (SELECT w.media_id FROM wanted w WHERE w.media_id = s.cover_media_id AND w.draft_id = s.id),
            (SELECT w.media_id FROM wanted w WHERE w.position = 0)
        ) AS cover_media_id
    FROM siblings s ORDER BY s.id LIMIT 1
), known AS MATERIALIZED (
    SELECT o.id, o.is_hidden FROM {officials} o WHERE {is_key}
), placed AS MATERIALIZED (
    SELECT there.id AS old_id, w.position, w.media_id, w.caption, w.draft_id
    FROM (
        SELECT id, position, media_id, caption, draft_id FROM {official_images}
        WHERE official_id = (SELECT id FROM known)
    ) there
    FULL JOIN wanted w ON w.position = there.position
    WHERE (there.media_id, there.caption, there.draft_id) IS DISTINCT FROM (w.media_id, w.caption, w.draft_id)
), made AS (
    INSERT INTO {officials} ({key_columns}, title, cover_media_id, image_count{and_collection})
    SELECT {key_values}, f.title, f.cover_media_id, f.image_count{and_collection_of_facts}
    FROM facts f WHERE NOT EXISTS (SELECT FROM known)
    RETURNING id
), gone AS (
    DELETE FROM {official_images}
    WHERE id = ANY (ARRAY(SELECT old_id FROM placed WHERE old_id IS NOT NULL))
    RETURNING 1
), added AS (
    INSERT INTO {official_images} (official_id, position, media_id, caption, draft_id)
    SELECT o.id, p.position, p.media_id, p.caption, p.draft_id
    FROM placed p CROSS JOIN (SELECT id FROM known UNION ALL SELECT id FROM made) o
    -- counting what is gone makes the delete come first: places are unique
    WHERE p.media_id IS NOT NULL AND (SELECT count(*) FROM gone) >= 0
    ORDER BY p.position
), described AS (
    UPDATE {officials} o
    SET title = coalesce(f.title, o.title), cover_media_id = f.cover_media_id,
        image_count = coalesce(f.image_count, 0), is_hidden = f.image_count IS NULL,
        updated_at = now(){set_collection}
    FROM known k LEFT JOIN facts f ON true
    WHERE o.id = k.id AND (
        EXISTS (SELECT FROM placed)
        OR (o.title, o.cover_media_id, o.image_count, o.is_hidden{and_collection_of_official})
            IS DISTINCT FROM (
                coalesce(f.title, o.title), f.cover_media_id, coalesce(f.image_count, 0),
                f.image_count IS NULL{and_collection_or_old}
            )
    )
)
SELECT coalesce(k.id, m.id) AS id, f.image_count IS NOT NULL AND coalesce(k.is_hidden, true) AS published
FROM (SELECT) one LEFT JOIN known k ON true LEFT JOIN made m ON true LEFT JOIN facts f ON true
"""


@cache
def recompute(tables: GalleryTables) -> Statement:
    """Return the statement that makes a key's official row what its approved drafts say.

    Its parameters are the key's columns. It returns one row: `id` is NULL where there are neither drafts nor
    a row; `published` tells whether the row was made or came out of hiding.
    """
    key = ("brand_id", "season_code", "collection_key") if tables is RUNWAY else ("city_id", "year", "month")
    runway = tables is RUNWAY
    return Statement(
        _RECOMPUTE.format(
            drafts=tables.drafts,
            draft_images=tables.draft_images,
            officials=tables.officials,
            official_images=tables.official_images,
            named=_NAMED[tables.kind],
            has_key=_HAS_KEY[tables.kind],
            is_key=" AND ".join(f"o.{name} = :{name}" for name in key),
            key_columns=", ".join(key),
            key_values=", ".join(f":{name}" for name in key),
            collection_of_draft="collection_name" if runway else "''",
            and_collection=", collection" if runway else "",
            and_collection_of_facts=", f.collection" if runway else "",
            set_collection=", collection = coalesce(f.collection, o.collection)" if runway else "",
            and_collection_of_official=", o.collection" if runway else "",
            and_collection_or_old=", coalesce(f.collection, o.collection)" if runway else "",
        )
    )
