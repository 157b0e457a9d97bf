"""Near-duplicates of stored images. SQL only."""

from __future__ import annotations

from collections.abc import Mapping

import asyncpg
from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.lane import Connection
from libs.common.named import Statement
from services.review.errors import MediaNotFound
from services.review.models_media import media_bands, similar_dismissals
from services.review.similarity import bands, near

MAX_FOUND = 100

_ORIGINAL = text("SELECT id FROM review.media WHERE key = :key AND parent_id IS NULL AND state = 'live'")

# OFFSET 0 keeps each part's look-up a look-up of its own; the hashes are compared inside the index. The outer
# join gives a row without a key when nothing is near, and none when the image itself isn't there.
_SIMILAR = Statement("""
WITH one AS MATERIALIZED (
    SELECT id, dhash FROM review.media WHERE key = :key AND parent_id IS NULL AND state = 'live'
), near AS MATERIALIZED (
    SELECT DISTINCT hit.media_id
    FROM one
    CROSS JOIN generate_series(0, 3) AS part (place)
    CROSS JOIN unnest(CAST(:flips AS bigint[])) AS flip (bits)
    CROSS JOIN LATERAL (
        SELECT b.media_id, b.dhash FROM review.media_bands b
        WHERE b.band = CAST(part.place AS smallint)
            AND b.value = CAST((one.dhash >> (48 - 16 * part.place)) & 65535 # flip.bits AS integer) OFFSET 0
    ) hit
    WHERE hit.dhash IS NULL OR bit_count(CAST(hit.dhash # one.dhash AS bit(64))) <= :distance
)
SELECT m.key, m.distance
FROM one LEFT JOIN LATERAL (
    SELECT found.key, found.distance, found.id
    FROM near CROSS JOIN LATERAL (
        SELECT id, key, state, bit_count(CAST(dhash # one.dhash AS bit(64))) AS distance
        FROM review.media WHERE id = near.media_id OFFSET 0
    ) found
    WHERE found.id <> one.id AND found.state = 'live' AND found.distance <= :distance AND NOT EXISTS (
        SELECT FROM review.similar_dismissals s
        WHERE s.media_id = least(found.id, one.id) AND s.other_id = greatest(found.id, one.id)
    )
) m ON true
ORDER BY m.distance, m.id LIMIT :limit
""")


async def keep_bands(session: AsyncSession, hashes: Mapping[int, int]) -> None:
    """Keep the parts of hashes by media id; repeating it changes nothing."""
    rows = [
        {"band": band, "value": value, "media_id": media_id, "dhash": dhash}
        for media_id, dhash in sorted(hashes.items())
        for band, value in enumerate(bands(dhash))
    ]
    if rows:
        await session.execute(upsert(media_bands).on_conflict_do_nothing(), rows)


async def original(session: AsyncSession, key: str) -> int:
    """Return the id of a live original. Raises MediaNotFound."""
    row_id: int | None = await session.scalar(_ORIGINAL, {"key": key})
    if row_id is None:
        raise _not_found(key)
    return row_id


def _not_found(key: str) -> MediaNotFound:
    return MediaNotFound(f"no stored original has the key {key!r}", key=key)


async def find_similar(connection: Connection, key: str, max_distance: int) -> list[asyncpg.Record]:
    """Return (key, distance) of live originals near to a live original, the nearest first.

    Raises:
        MediaNotFound: no live original has the key.
    """
    rows = await _SIMILAR.rows(connection, key=key, flips=near(0), distance=max_distance, limit=MAX_FOUND)
    if not rows:
        raise _not_found(key)
    return [row for row in rows if row["key"] is not None]


async def dismiss(session: AsyncSession, one: int, other: int, actor: str) -> None:
    """Remember that two images aren't the same."""
    low, high = sorted((one, other))
    values = {"media_id": low, "other_id": high, "actor": actor}
    await session.execute(upsert(similar_dismissals).values(values).on_conflict_do_nothing())
