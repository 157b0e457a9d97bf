"""SQL of a submission: key, nonce and job. No function commits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import delete, extract, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from services.ingest.models import AnyRow, jobs, nonces, spider_keys

PURGE_BATCH = 5000


class Key(NamedTuple):
    """A key that works, and the database's time (Unix seconds) when it was read."""

    spider_id: UUID
    sealed_secret: bytes
    now: float


async def working_key(session: AsyncSession, key_id: str) -> Key | None:
    """Return the key with this id, None when there is none or it is revoked."""
    query = select(spider_keys.c.spider_id, spider_keys.c.sealed_secret, extract("epoch", func.now())).where(
        spider_keys.c.key_id == key_id, spider_keys.c.revoked_at.is_(None)
    )
    row = (await session.execute(query)).one_or_none()
    return None if row is None else Key(row[0], row[1], float(row[2]))


async def use_nonce(session: AsyncSession, spider_id: UUID, nonce: str, signed_at: int) -> bool:
    """Note a nonce; False when the spider has used it before (whatever the key)."""
    added = await session.execute(
        insert(nonces)
        .values(spider_id=spider_id, nonce=nonce, signed_at=datetime.fromtimestamp(signed_at, UTC))
        .on_conflict_do_nothing()
        .returning(nonces.c.nonce)
    )
    return added.scalar_one_or_none() is not None


async def add_job(session: AsyncSession, values: dict[str, Any]) -> bool:
    """Add a pending job; False when its request id is known (no conflict target: the id is new anyway)."""
    added = await session.execute(insert(jobs).values(**values).on_conflict_do_nothing().returning(jobs.c.id))
    return added.scalar_one_or_none() is not None


async def job_of_request(session: AsyncSession, spider_id: UUID, request_id: str) -> AnyRow:
    """Return (id, request_digest) of the job a spider made under a request id that is known."""
    query = select(jobs.c.id, jobs.c.request_digest).where(
        jobs.c.spider_id == spider_id, jobs.c.request_id == request_id, text("request_id <> ''")
    )
    return (await session.execute(query)).one()


async def purge_nonces(session: AsyncSession, keep_seconds: float) -> int:
    """Delete up to a batch of nonces signed over `keep_seconds` ago and return how many those were."""
    old = nonces.c.signed_at < func.now() - timedelta(seconds=keep_seconds)
    batch = select(nonces.c.spider_id, nonces.c.nonce).where(old).limit(PURGE_BATCH).subquery()
    gone = await session.execute(
        delete(nonces)
        .where(nonces.c.spider_id == batch.c.spider_id, nonces.c.nonce == batch.c.nonce)
        .returning(nonces.c.nonce)
    )
    return len(gone.all())
