"""SQL of hosts that asked to be left alone (429 or 503 with Retry-After). No function commits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from services.ingest.models import AnyRow, host_pauses

MOST_PAUSES = 1_000


async def pause(session: AsyncSession, host: str, length: timedelta) -> None:
    """Leave a host alone for so long from now on; a pause that ends later stays."""
    added = insert(host_pauses).values(host=host, until=func.now() + length)
    later = func.greatest(host_pauses.c.until, added.excluded.until)
    await session.execute(added.on_conflict_do_update(index_elements=["host"], set_={"until": later}))


async def pauses(session: AsyncSession) -> Sequence[AnyRow]:
    """Return (host, length) of the pauses that are on, the longest first."""
    length = (host_pauses.c.until - func.now()).label("length")
    query = select(host_pauses.c.host, length).where(host_pauses.c.until > func.now())
    return (await session.execute(query.order_by(host_pauses.c.until.desc()).limit(MOST_PAUSES))).all()


async def forget_past(session: AsyncSession) -> None:
    """Delete the pauses that are over, those aside that somebody is just prolonging."""
    over = select(host_pauses.c.host).where(host_pauses.c.until < func.now())
    gone = delete(host_pauses).where(host_pauses.c.host.in_(over.with_for_update(skip_locked=True)))
    await session.execute(gone)
