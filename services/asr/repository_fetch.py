"""SQL of recordings that a run fetches from the web: the pieces kept, and the whole.

Every function takes the session first and never commits. Each write takes effect only for the current run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, delete, exists, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from services.asr import repository_material, repository_upload
from services.asr.errors import OffsetMismatch, UploadOverrun
from services.asr.models import live_materials, upload_parts, uploads
from services.asr.repository_transcription import lease_lost, live, lock_live


@dataclass(frozen=True, slots=True)
class Piece:
    """A stored piece: where it begins in the recording, its object and its size, both in bytes."""

    offset: int
    key: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Source:
    """What the recording's server said of it: a validator ('': none) and its whole size (0: not known)."""

    validator: str
    total_bytes: int


async def state(session: AsyncSession, upload_id: UUID) -> tuple[Row[Any], Sequence[Any]]:
    """Read what is kept of a recording: its row and its pieces in order."""
    row = await repository_upload.get(session, upload_id)
    query = select(upload_parts.c.object_key, upload_parts.c.size_bytes)
    mine = query.where(upload_parts.c.upload_id == upload_id).order_by(upload_parts.c.part)
    return row, (await session.execute(mine)).all()


async def save_piece(
    session: AsyncSession, material_id: UUID, asr_version: int, piece: Piece, source: Source
) -> int:
    """Append a piece, and return where the pieces end; one at offset 0 begins the recording again.

    Raises:
        MaterialNotFound, LeaseLost: see `lock_live`.
        OffsetMismatch: the pieces don't end where it begins.
        UploadOverrun: it reaches beyond the size that the first piece came with.
    """
    upload_id = await lock_live(session, material_id, asr_version)
    if await _has(session, upload_id, piece.key):
        return int((await repository_upload.get(session, upload_id)).committed_bytes)
    if piece.offset == 0:
        await _begin_again(session, upload_id, source)
    if not await repository_upload.commit_part(
        session, upload_id, offset=piece.offset, size_bytes=piece.size_bytes, key=piece.key
    ):
        row = await repository_upload.get(session, upload_id)
        if row.committed_bytes == piece.offset:
            raise UploadOverrun(
                f"the piece ends at {piece.offset + piece.size_bytes}, the recording at {row.size_bytes};"
                " fetch it again from 0"
            )
        raise OffsetMismatch(
            f"the piece begins at {piece.offset}, but the pieces end at {row.committed_bytes}",
            committed_bytes=str(row.committed_bytes),
        )
    return piece.offset + piece.size_bytes


async def _has(session: AsyncSession, upload_id: UUID, key: str) -> bool:
    mine = (upload_parts.c.upload_id == upload_id) & (upload_parts.c.object_key == key)
    return bool((await session.execute(select(exists().where(mine)))).scalar_one())


async def _begin_again(session: AsyncSession, upload_id: UUID, source: Source) -> None:
    """Drop the pieces; what they are of has changed, or none was kept yet."""
    await repository_material.doom(session, await repository_upload.part_keys(session, upload_id))
    await repository_upload.start_over(session, upload_id)
    await session.execute(
        update(uploads)
        .where(uploads.c.id == upload_id, uploads.c.sha1 == "")
        .values(validator=source.validator, size_bytes=source.total_bytes)
    )


async def finish(session: AsyncSession, material_id: UUID, asr_version: int, whole: dict[str, Any]) -> None:
    """Give the material its recording (`whole`: media_key, size_bytes, sha1) and doom the pieces.

    A repeat by the same run changes nothing.

    Raises:
        MaterialNotFound: the material is gone.
        LeaseLost: the run is not the current one any more.
    """
    statement = live(material_id, asr_version).where(live_materials.c.media_key == "")
    written = statement.values(**whole, updated_at=func.now()).returning(live_materials.c.upload_id)
    upload_id = (await session.execute(written)).scalar_one_or_none()
    if upload_id is None:
        await lock_live(session, material_id, asr_version)
        row = await repository_material.get(session, material_id)
        if row.media_key == whole["media_key"]:
            return
        raise lease_lost(material_id, asr_version)
    await session.execute(
        update(uploads)
        .where(uploads.c.id == upload_id)
        .values(**whole, committed_bytes=whole["size_bytes"], updated_at=func.now())
    )
    await session.execute(delete(upload_parts).where(upload_parts.c.upload_id == upload_id))
    await repository_material.doom(session, [f"uploads/{upload_id}/"])


async def create(session: AsyncSession, upload_id: UUID, *, url: str, file_name: str) -> None:
    """Insert what a recording's pieces will hang on."""
    values = {"id": upload_id, "source_url": url, "file_name": file_name, "size_bytes": 0}
    await session.execute(insert(uploads).values(values))
