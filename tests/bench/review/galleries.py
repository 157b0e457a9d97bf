"""Put many drafts of many keys into the database at once, as the service would have left them."""

from __future__ import annotations

import asyncpg

IMAGES = 60
SIBLINGS = 5
CITY = "copenhagen"
# Keys are the months of this city from this year on.
FIRST_YEAR = 1000

_MEDIA = """
INSERT INTO review.media (id, key, sha256, size_bytes, content_type, width, height, state)
SELECT n, 'media/' || lpad(to_hex(n & 255), 2, '0') || '/' || lpad(to_hex(n), 40, '0') || '.jpg',
    lpad(to_hex(n), 64, '0'), 250000, 'image/jpeg', 1600, 2400, 'live'
FROM generate_series($1::int8, $2::int8) n
"""

_DRAFTS = """
INSERT INTO review.street_snap_drafts
    (id, job_id, source, source_url, title, status, revision, decided_by, city, city_id, year, month)
SELECT id, 'job-' || id, 'vogue', 'https://www.vogue.com/slideshow/street-style-' || id,
    'The best street style of the week, part ' || id,
    CASE WHEN s < $5 THEN 'approved' ELSE 'pending' END, CASE WHEN s < $5 THEN 2 ELSE 1 END,
    CASE WHEN s < $5 THEN 'Anna' ELSE '' END, 'Copenhagen', $1, $6 + k / 12, k % 12 + 1
FROM generate_series($2::int8, $3::int8) k, generate_series(0, $4::int8 - 1) s,
    LATERAL (SELECT k * $4 + s + 1 AS id) o
ORDER BY id
"""

_IMAGES = """
INSERT INTO review.street_snap_draft_images (draft_id, position, media_id, caption, original_url)
SELECT id, p, (id - 1) * $3 + p + 1, 'Look ' || p,
    'https://assets.vogue.com/photos/' || id || '/' || p || '.jpg'
FROM generate_series($1::int8, $2::int8) id, generate_series(0, $3::int8 - 1) p
ORDER BY id, p -- together, as they came in
"""

_OFFICIALS = """
INSERT INTO review.street_snaps (id, city_id, year, month, title, cover_media_id, image_count)
SELECT k + 1, $1, $4 + k / 12, k % 12 + 1, 'The best street style of the week, part ' || (k * $5 + 1),
    k * $5 * $6 + 1, $6 * $7
FROM generate_series($2::int8, $3::int8) k
"""

_OFFICIAL_IMAGES = """
INSERT INTO review.street_snap_images (official_id, position, media_id, caption, draft_id)
SELECT k + 1, (i.draft_id - k * $3 - 1) * $4 + i.position, i.media_id, i.caption, i.draft_id
FROM generate_series($1::int8, $2::int8) k
JOIN review.street_snap_draft_images i ON i.draft_id BETWEEN k * $3 + 1 AND k * $3 + $5
ORDER BY i.draft_id, i.position
"""

_SEQUENCES = """
SELECT setval(pg_get_serial_sequence('review.' || name, 'id'), (SELECT max(id) FROM review.media))
FROM unnest(ARRAY['media', 'street_snap_drafts', 'street_snaps']) name
"""


async def city_of(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    """Return the id of the city that all the keys are of."""
    return int(await connection.fetchval("SELECT city_id FROM review.city_aliases WHERE folded = $1", CITY))


async def fill(connection: asyncpg.Connection[asyncpg.Record], *, keys: int, waiting: int) -> list[list[int]]:
    """Add keys with five approved siblings of 60 images each, promoted, and so many pending drafts.

    Keys, drafts and images are numbered from one end to the other. Return the pending drafts of each key.
    """
    drafts, last_key = SIBLINGS + waiting, keys - 1
    await connection.execute("SET session_replication_role = replica")  # the rows are right; check nothing
    city = await city_of(connection)
    await connection.execute(_MEDIA, 1, keys * drafts * IMAGES)
    await connection.execute(_DRAFTS, city, 0, last_key, drafts, SIBLINGS, FIRST_YEAR)
    await connection.execute(_IMAGES, 1, keys * drafts, IMAGES)
    await connection.execute(_OFFICIALS, city, 0, last_key, FIRST_YEAR, drafts, IMAGES, SIBLINGS)
    await connection.execute(_OFFICIAL_IMAGES, 0, last_key, drafts, IMAGES, SIBLINGS)
    await connection.execute(_SEQUENCES)
    await connection.execute("SET session_replication_role = origin")
    return [[key * drafts + SIBLINGS + number + 1 for number in range(waiting)] for key in range(keys)]
