"""Near-duplicates of stored images. SQL only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from services.review.errors import MediaNotFound
from services.review.models_media import media_bands, similar_dismissals
from services.review.similarity import bands, near

MAX_FOUND = 100

_ORIGINAL = text(
    "SELECT id, dhash FROM review.media WHERE key = :key AND parent_id IS NULL AND state = 'live'"
)

# OFFSET 0 keeps each part's look-up a look-up of its own; the hashes are compared inside the index.
_SIMILAR = text("""
WITH near AS MATERIALIZED (
    SELECT DISTINCT hit.media_id
    FROM unnest(CAST(:bands AS smallint[]), CAST(:values AS integer[])) AS part (band, value)
    CROSS JOIN LATERAL (
        SELECT b.media_id, b.dhash FROM review.media_bands b
        WHERE b.band = part.band AND b.value = part.value OFFSET 0
    ) hit
    WHERE hit.dhash IS NULL OR bit_count(CAST(hit.dhash # :dhash AS bit(64))) <= :distance
)
SELECT m.key, m.distance
FROM near CROSS JOIN LATERAL (
    SELECT id, key, state, bit_count(CAST(dhash # :dhash AS bit(64))) AS distance
    FROM review.media WHERE id = near.media_id OFFSET 0
) m
WHERE m.id <> :id AND m.state = 'live' AND m.distance <= :distance AND NOT EXISTS (
    SELECT FROM review.similar_dismissals s
    WHERE s.media_id = least(m.id, :id) AND s.other_id = greatest(m.id, :id)
)
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


async def original(session: AsyncSession, key: str) -> Any:
    """Return (id, dhash) of a live original. Raises MediaNotFound."""
    row = (await session.execute(_ORIGINAL, {"key": key})).one_or_none()
    if row is None:
        raise MediaNotFound(f"no stored original has the key {key!r}", key=key)
    return row


async def find_similar(session: AsyncSession, row: Any, max_distance: int) -> Sequence[Any]:
    """Return (key, distance) of live originals near to (id, dhash), the nearest first."""
    parts = [(band, value) for band, part in enumerate(bands(row.dhash)) for value in near(part)]
    asked = {
        "bands": [band for band, _ in parts],
        "values": [value for _, value in parts],
        **{"id": row.id, "dhash": row.dhash, "distance": max_distance, "limit": MAX_FOUND},
    }
    return (await session.execute(_SIMILAR, asked)).all()


async def dismiss(session: AsyncSession, one: int, other: int, actor: str) -> None:
    """Remember that two images aren't the same."""
    low, high = sorted((one, other))
    values = {"media_id": low, "other_id": high, "actor": actor}
    await session.execute(upsert(similar_dismissals).values(values).on_conflict_do_nothing())
