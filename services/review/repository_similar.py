"""Near-duplicates of stored images. SQL only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import and_, cast, exists, func, or_, select
from sqlalchemy.dialects.postgresql import ARRAY, BIT, INTEGER
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from services.review.errors import MediaNotFound
from services.review.models_media import media, media_bands, similar_dismissals
from services.review.similarity import bands, near
from services.review.states import MediaState

MAX_FOUND = 100


async def keep_bands(session: AsyncSession, hashes: Mapping[int, int]) -> None:
    """Keep the parts of hashes by media id; repeating it changes nothing."""
    rows = [
        {"band": band, "value": value, "media_id": media_id}
        for media_id, dhash in sorted(hashes.items())
        for band, value in enumerate(bands(dhash))
    ]
    if rows:
        await session.execute(upsert(media_bands).on_conflict_do_nothing(), rows)


async def original(session: AsyncSession, key: str) -> Any:
    """Return (id, dhash) of a live original. Raises MediaNotFound."""
    query = select(media.c.id, media.c.dhash).where(
        media.c.key == key, media.c.parent_id.is_(None), media.c.state == MediaState.LIVE.value
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise MediaNotFound(f"no stored original has the key {key!r}", key=key)
    return row


async def find_similar(session: AsyncSession, row: Any, max_distance: int) -> Sequence[Any]:
    """Return (key, distance) of live originals near to (id, dhash), the nearest first."""
    candidates = or_(
        *(
            and_(
                media_bands.c.band == band, media_bands.c.value == func.any(cast(near(value), ARRAY(INTEGER)))
            )
            for band, value in enumerate(bands(row.dhash))
        )
    )
    distance = func.bit_count(cast(media.c.dhash.op("#")(row.dhash), BIT(64)))
    low, high = func.least(media.c.id, row.id), func.greatest(media.c.id, row.id)
    dismissed = exists(
        select(1).where(similar_dismissals.c.media_id == low, similar_dismissals.c.other_id == high)
    )
    query = (
        select(media.c.key, distance.label("distance"))
        .where(
            media.c.id.in_(select(media_bands.c.media_id).where(candidates)),
            media.c.id != row.id,
            media.c.state == MediaState.LIVE.value,
            distance <= max_distance,
            ~dismissed,
        )
        .order_by(distance, media.c.id)
        .limit(MAX_FOUND)
    )
    return (await session.execute(query)).all()


async def dismiss(session: AsyncSession, one: int, other: int, actor: str) -> None:
    """Remember that two images aren't the same."""
    low, high = sorted((one, other))
    values = {"media_id": low, "other_id": high, "actor": actor}
    await session.execute(upsert(similar_dismissals).values(values).on_conflict_do_nothing())
