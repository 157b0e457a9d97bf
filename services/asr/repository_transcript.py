"""SQL that reads transcripts."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row, select
from sqlalchemy.ext.asyncio import AsyncSession

from services.asr.errors import NoTranscript
from services.asr.models import transcript_paragraphs, transcripts


async def one_snapshot(session: AsyncSession) -> None:
    """Make all reads of this transaction see the same moment; must come before its first statement."""
    await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})


async def get(session: AsyncSession, material_id: UUID, *, with_utterances: bool) -> Row[Any]:
    """Read a transcript's row; asr_raw only when the utterances are wanted.

    Raises:
        NoTranscript: the material has none yet.
    """
    columns = [column for column in transcripts.c if with_utterances or column.name != "asr_raw"]
    row = (
        await session.execute(select(*columns).where(transcripts.c.material_id == material_id))
    ).one_or_none()
    if row is None:
        raise NoTranscript("there is no transcript yet; wait until asr_status is completed")
    return row


async def paragraphs(session: AsyncSession, material_id: UUID) -> Sequence[Row[Any]]:
    """Read a transcript's paragraphs in order."""
    query = select(transcript_paragraphs).where(transcript_paragraphs.c.material_id == material_id)
    return (await session.execute(query.order_by(transcript_paragraphs.c.paragraph))).all()
