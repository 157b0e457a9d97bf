"""Index paragraphs that a release before this one stored, so that they are found as the others are."""

import asyncio
from typing import Any

import structlog
from sqlalchemy import bindparam, select, update

from libs.common.db import Database
from libs.common.loops import Periodic
from services.asr.models import transcript_paragraphs
from services.asr.transcript_terms import Terms, terms_of

log = structlog.get_logger(__name__)

_BATCH = 500


class ParagraphIndexing(Periodic):
    """Fills in what paragraphs are found by; a step costs one look at an empty index when all are."""

    def __init__(self, database: Database, *, interval_seconds: float) -> None:
        super().__init__("asr.paragraph_indexing", interval_seconds, self.step)
        self._database = database

    async def step(self) -> None:
        """Index a batch, and ask for another step when more are left."""
        columns = transcript_paragraphs.c
        found = select(columns.material_id, columns.paragraph, columns.text).where(columns.grams.is_(None))
        async with self._database.begin() as session:
            rows = (await session.execute(found.limit(_BATCH))).all()
        if not rows:
            return
        terms = await asyncio.to_thread(lambda: [terms_of(row.text) for row in rows])
        # the text is compared: a new transcript may have come between the look and the write
        mine = (
            (columns.material_id == bindparam("of_material"))
            & (columns.paragraph == bindparam("of_paragraph"))
            & (columns.text == bindparam("of_text"))
        )
        statement = update(transcript_paragraphs).where(mine)
        async with self._database.begin() as session:
            connection = await session.connection()
            await connection.execute(
                statement.values(grams=bindparam("new_grams"), sounds=bindparam("new_sounds")),
                [_values(row, found) for row, found in zip(rows, terms, strict=True)],
            )
        log.info("asr.paragraphs_indexed", paragraphs=len(rows))
        if len(rows) == _BATCH:
            self.wake()


def _values(row: Any, terms: Terms) -> dict[str, object]:
    return {
        "of_material": row.material_id,
        "of_paragraph": row.paragraph,
        "of_text": row.text,
        "new_grams": terms.grams,
        "new_sounds": terms.sounds,
    }
