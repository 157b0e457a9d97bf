"""What transcripts are searched by, recordings by URL, and the indices of the followers' polls

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_POLLED = (("live_materials", "asr_status"), ("video_projects", "status"))


def upgrade() -> None:
    """Add columns that the release before leaves as they are; its paragraphs are indexed by a loop."""
    for name in ("source_url", "validator"):
        op.add_column("uploads", _text(name), schema="asr")
    op.add_column("live_materials", _text("media_url"), schema="asr")
    op.drop_constraint("uploads_bytes", "uploads", schema="asr", type_="check")
    op.create_check_constraint(
        "uploads_bytes",
        "uploads",
        "committed_bytes >= 0 AND (size_bytes > 0 AND committed_bytes <= size_bytes"
        " OR size_bytes = 0 AND source_url <> '')",
        schema="asr",
    )
    op.add_column("transcript_paragraphs", sa.Column("grams", sa.ARRAY(sa.Text())), schema="asr")
    op.add_column("transcript_paragraphs", sa.Column("sounds", sa.Text()), schema="asr")
    op.create_index(
        "transcript_paragraphs_grams",
        "transcript_paragraphs",
        ["grams"],
        schema="asr",
        postgresql_using="gin",
    )
    op.create_index(
        "transcript_paragraphs_unindexed",
        "transcript_paragraphs",
        ["material_id", "paragraph"],
        schema="asr",
        postgresql_where=sa.text("grams IS NULL"),
    )
    for table, status in _POLLED:
        active = sa.text(f"{status} IN ('pending', 'processing')")
        failed = sa.text(f"{status} = 'failed'")
        op.create_index(f"{table}_active", table, ["id"], schema="asr", postgresql_where=active)
        op.create_index(f"{table}_failed", table, ["updated_at"], schema="asr", postgresql_where=failed)
    op.drop_index("live_materials_following", "live_materials", schema="asr")


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
