"""SQL of spiders and their keys. No function commits."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from services.ingest.models import AnyRow, spider_keys, spiders


async def add(session: AsyncSession, spider_id: UUID, name: str, request_id: str) -> bool:
    """Add a spider; False when its name or its request id is taken."""
    added = await session.execute(
        insert(spiders)
        .values(id=spider_id, name=name, request_id=request_id)
        .on_conflict_do_nothing()
        .returning(spiders.c.id)
    )
    return added.scalar_one_or_none() is not None


async def of_request(session: AsyncSession, request_id: str) -> AnyRow | None:
    """Return the spider made under a request id, None for the empty one and an unknown one."""
    if not request_id:
        return None
    query = select(spiders).where(spiders.c.request_id == request_id)
    return (await session.execute(query)).one_or_none()


async def get(session: AsyncSession, spider_id: UUID, *, lock: bool = False) -> AnyRow | None:
    """Return a spider, None when there is none; with `lock`, held till the transaction ends.

    Held against others that lock, and not against submissions, whose rows refer to the spider: all keys'
    submissions share a statement, which would wait.
    """
    query = select(spiders).where(spiders.c.id == spider_id)
    return (await session.execute(query.with_for_update(key_share=True) if lock else query)).one_or_none()


async def add_key(
    session: AsyncSession, spider_id: UUID, key_id: str, sealed_secret: bytes, request_id: str
) -> None:
    """Add a key that works at once."""
    key = {"spider_id": spider_id, "key_id": key_id, "sealed_secret": sealed_secret}
    await session.execute(insert(spider_keys).values(**key, request_id=request_id))


async def key_of_request(session: AsyncSession, spider_id: UUID, request_id: str) -> str | None:
    """Return the id of the key made under a request id, None for the empty one and an unknown one."""
    if not request_id:
        return None
    query = select(spider_keys.c.key_id).where(
        spider_keys.c.spider_id == spider_id, spider_keys.c.request_id == request_id
    )
    return (await session.execute(query)).scalar_one_or_none()


async def revoke(session: AsyncSession, key_id: str) -> UUID | None:
    """Revoke a key, keep the time of a first revocation, and return its spider; None when there is no key."""
    change = (
        update(spider_keys)
        .where(spider_keys.c.key_id == key_id)
        .values(revoked_at=func.coalesce(spider_keys.c.revoked_at, func.now()))
        .returning(spider_keys.c.spider_id)
    )
    spider_id: UUID | None = (await session.execute(change)).scalar_one_or_none()
    return spider_id


async def listed(session: AsyncSession, *, after: str | None, limit: int) -> Sequence[AnyRow]:
    """Return spiders by name, those after `after`."""
    query = select(spiders).order_by(spiders.c.name).limit(limit)
    if after is not None:
        query = query.where(spiders.c.name > after)
    return (await session.execute(query)).all()


async def keys_of(session: AsyncSession, spider_ids: Sequence[UUID]) -> Sequence[AnyRow]:
    """Return the keys of some spiders, newest first, without their secrets."""
    query = (
        select(
            spider_keys.c.key_id, spider_keys.c.spider_id, spider_keys.c.created_at, spider_keys.c.revoked_at
        )
        .where(spider_keys.c.spider_id.in_(spider_ids))
        .order_by(spider_keys.c.created_at.desc(), spider_keys.c.key_id.desc())
    )
    return (await session.execute(query)).all()
