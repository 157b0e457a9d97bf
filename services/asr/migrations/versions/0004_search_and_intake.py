"""What transcripts are searched by, recordings by URL, and the indices of the followers' polls

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

from libs.common.migrate import build_index

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

allowed = {"ban-drop-constraint": "the one in its place takes all that the old one took"}

_POLLED = (("live_materials", "asr_status"), ("video_projects", "status"))


def upgrade() -> None:
    """Add columns that the release before leaves as they are; its paragraphs are indexed by a loop.

    What follows goes without locks, each statement alone. A run that broke off begins anew.
    """
    for table, column in (
        ("uploads", _text("source_url")),
        ("uploads", _text("validator")),
        ("live_materials", _text("media_url")),
        ("transcript_paragraphs", sa.Column("grams", sa.ARRAY(sa.Text()))),
        ("transcript_paragraphs", sa.Column("sounds", sa.Text())),
    ):
        op.add_column(table, column, schema="asr", if_not_exists=True)
    op.execute(
        "ALTER TABLE asr.uploads DROP CONSTRAINT uploads_bytes, ADD CONSTRAINT uploads_bytes CHECK ("
        "committed_bytes >= 0 AND (size_bytes > 0 AND committed_bytes <= size_bytes"
        " OR size_bytes = 0 AND source_url <> '')) NOT VALID"
    )
    with op.get_context().autocommit_block():
        op.execute("ALTER TABLE asr.uploads VALIDATE CONSTRAINT uploads_bytes")
        op.execute("ALTER TABLE asr.video_projects VALIDATE CONSTRAINT video_projects_cut_mode")
        op.execute(
            "UPDATE asr.clips SET chosen_start_ms = start_ms, words_source = 'local' WHERE words_source = ''"
        )
        for name, definition in _indexes().items():
            build_index("asr", name, definition)
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS asr.live_materials_following")


def _indexes() -> dict[str, str]:
    """Return the definition of each new index by its name."""
    paragraphs = {
        "transcript_paragraphs_grams": "transcript_paragraphs USING gin (grams)",
        "transcript_paragraphs_unindexed": "transcript_paragraphs (material_id, paragraph)"
        " WHERE grams IS NULL",
    }
    active = {
        f"{table}_active": f"{table} (id) WHERE {status} IN ('pending', 'processing')"
        for table, status in _POLLED
    }
    failed = {
        f"{table}_failed": f"{table} (updated_at) WHERE {status} = 'failed'" for table, status in _POLLED
    }
    return paragraphs | active | failed


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), server_default=sa.text("''"), nullable=False)


def downgrade() -> None:
    """Take all of it back; recordings that no run has fetched yet go with their materials."""
    op.create_index(
        "live_materials_following",
        "live_materials",
        ["id"],
        schema="asr",
        postgresql_where=sa.text("asr_status IN ('pending', 'processing', 'failed')"),
    )
    for table, _ in _POLLED:
        op.drop_index(f"{table}_failed", table, schema="asr")
        op.drop_index(f"{table}_active", table, schema="asr")
    op.drop_index("transcript_paragraphs_unindexed", "transcript_paragraphs", schema="asr")
    op.drop_index("transcript_paragraphs_grams", "transcript_paragraphs", schema="asr")
    op.drop_column("transcript_paragraphs", "sounds", schema="asr")
    op.drop_column("transcript_paragraphs", "grams", schema="asr")
    op.execute("DELETE FROM asr.live_materials WHERE media_key = ''")
    op.execute("DELETE FROM asr.uploads WHERE size_bytes = 0")
    op.drop_constraint("uploads_bytes", "uploads", schema="asr", type_="check")
    op.create_check_constraint(
        "uploads_bytes",
        "uploads",
        "size_bytes > 0 AND committed_bytes BETWEEN 0 AND size_bytes",
        schema="asr",
    )
    op.drop_column("live_materials", "media_url", schema="asr")
    for name in ("validator", "source_url"):
        op.drop_column("uploads", name, schema="asr")
