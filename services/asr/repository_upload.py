"""SQL of uploads. Every function takes the session first and never commits."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row, delete, exists, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from services.asr.errors import UploadNotFound
from services.asr.models import live_materials, upload_parts, uploads


async def get(session: AsyncSession, upload_id: UUID, *, for_update: bool = False) -> Row[Any]:
    """Read one upload, locked when asked for.

    Raises:
        UploadNotFound: there is none.
    """
    query = select(uploads).where(uploads.c.id == upload_id)
    row = (await session.execute(query.with_for_update() if for_update else query)).one_or_none()
    if row is None:
        raise UploadNotFound(
            f"no upload {upload_id}; unused uploads are removed after some days: begin a new one",
            upload_id=str(upload_id),
        )
    return row


async def create(session: AsyncSession, upload_id: UUID, values: dict[str, Any]) -> None:
    """Insert a new upload with nothing committed."""
    await session.execute(insert(uploads).values(id=upload_id, **values))


async def commit_part(
    session: AsyncSession, upload_id: UUID, *, offset: int, size_bytes: int, key: str
) -> bool:
    """Append a stored part; False when the upload doesn't end at `offset` any more, or has no room for it."""
    statement = (
        update(uploads)
        .where(
            uploads.c.id == upload_id,
            uploads.c.committed_bytes == offset,
            uploads.c.sha1 == "",
            or_(uploads.c.size_bytes == 0, uploads.c.size_bytes >= offset + size_bytes),
        )
        .values(
            committed_bytes=uploads.c.committed_bytes + size_bytes,
            part_count=uploads.c.part_count + 1,
            updated_at=func.now(),
        )
        .returning(uploads.c.part_count)
    )
    count = (await session.execute(statement)).scalar_one_or_none()
    if count is None:
        return False
    part = {"upload_id": upload_id, "part": count - 1, "object_key": key, "size_bytes": size_bytes}
    await session.execute(insert(upload_parts).values(part))
    return True


async def part_keys(session: AsyncSession, upload_id: UUID) -> Sequence[str]:
    """Read the parts' object keys in order."""
    query = select(upload_parts.c.object_key).where(upload_parts.c.upload_id == upload_id)
    return (await session.execute(query.order_by(upload_parts.c.part))).scalars().all()


async def finish(session: AsyncSession, upload_id: UUID, *, sha1: str, media_key: str) -> None:
    """Store the whole's hash and key, and forget the parts. A repeat writes the same."""
    await session.execute(
        update(uploads)
        .where(uploads.c.id == upload_id)
        .values(sha1=sha1, media_key=media_key, updated_at=func.now())
    )
    await session.execute(delete(upload_parts).where(upload_parts.c.upload_id == upload_id))


async def start_over(session: AsyncSession, upload_id: UUID) -> None:
    """Forget all that is committed of an unfinished upload."""
    await session.execute(delete(upload_parts).where(upload_parts.c.upload_id == upload_id))
    await session.execute(
        update(uploads)
        .where(uploads.c.id == upload_id, uploads.c.sha1 == "")
        .values(committed_bytes=0, part_count=0, updated_at=func.now())
    )


async def remove_expired(session: AsyncSession, *, keep_hours: float, limit: int) -> Sequence[UUID]:
    """Delete uploads unused and untouched for `keep_hours`; return their ids."""
    used = exists().where(live_materials.c.upload_id == uploads.c.id)
    old = uploads.c.updated_at < func.now() - func.make_interval(0, 0, 0, 0, 0, 0, keep_hours * 3600)
    unused = select(uploads.c.id).where(old, ~used).limit(limit).with_for_update(skip_locked=True)
    locked = (await session.execute(unused)).scalars().all()
    # looked at again under the locks: one may have become a material's since the first look began
    statement = delete(uploads).where(uploads.c.id.in_(locked), ~used).returning(uploads.c.id)
    return (await session.execute(statement)).scalars().all()
