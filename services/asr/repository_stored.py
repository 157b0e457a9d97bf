"""Which stored objects asr's rows need: what a backup must hold."""

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, CompoundSelect, Table, Text, cast, null, select, union_all

from services.asr.models import clips, live_materials, upload_parts, uploads
from services.asr.models_draft import editing_drafts


def needed() -> CompoundSelect[Any]:
    """Select key, size in bytes (null: not known) and SHA-256 (always null: rows hold a SHA-1).

    Debug records and what a run keeps for the next one are missed by nobody, and so not named.
    """
    unknown = cast(null(), BigInteger)
    return union_all(
        *(
            _named(table, table.c[key], size)
            for table, key, size in (
                (uploads, "media_key", unknown),
                (upload_parts, "object_key", upload_parts.c.size_bytes),
                (live_materials, "media_key", unknown),
                (live_materials, "canonical_key", unknown),
                (clips, "media_key", clips.c.size_bytes),
                (clips, "thumbnail_key", unknown),
                (editing_drafts, "media_key", unknown),
            )
        )
    )


def _named(table: Table, key: ColumnElement[str], size: ColumnElement[int]) -> Any:
    return select(key, size, cast(null(), Text)).select_from(table).where(key != "")
