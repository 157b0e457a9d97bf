"""SQL that reads transcripts."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row, select
from sqlalchemy.ext.asyncio import AsyncSession

from services.asr import transcript_terms
from services.asr.errors import NoTranscript
from services.asr.models import live_materials, transcript_paragraphs, transcripts

# what a paragraph is found by is as long as the paragraph, and nobody reads it
PARAGRAPH = tuple(column for column in transcript_paragraphs.c if column.name not in {"grams", "sounds"})


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
    query = select(*PARAGRAPH).where(transcript_paragraphs.c.material_id == material_id)
    return (await session.execute(query.order_by(transcript_paragraphs.c.paragraph))).all()


async def search(
    session: AsyncSession,
    groups: Sequence[Sequence[str]],
    *,
    only: UUID | None,
    after: tuple[UUID, int] | None,
    limit: int,
) -> Sequence[Any]:
    """Read paragraphs that hold all words of a group, as written or as heard, with `as_written`.

    The newest material comes first, its paragraphs in order.

    `only` narrows to one material; `after` is the (material, paragraph) that the page before ended with.
    """
    columns = transcript_paragraphs.c
    query = (
        select(*PARAGRAPH, live_materials.c.name, transcript_terms.as_written(groups).label("as_written"))
        .join(live_materials, live_materials.c.id == columns.material_id)
        .where(transcript_terms.condition(groups))
        .order_by(columns.material_id.desc(), columns.paragraph)
        .limit(limit)
    )
    if only is not None:
        query = query.where(columns.material_id == only)
    if after is not None:
        material_id, paragraph = after
        same = (columns.material_id == material_id) & (columns.paragraph > paragraph)
        query = query.where((columns.material_id < material_id) | same)
    return (await session.execute(query)).all()
