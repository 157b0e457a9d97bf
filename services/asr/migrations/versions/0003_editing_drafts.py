"""Editing drafts, and how clips are cut and named

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def _text(name: str, default: str = "''") -> sa.Column[str]:
    return sa.Column(name, sa.Text(), server_default=sa.text(default), nullable=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), server_default=sa.text("0"), nullable=False)


def _time(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False)


def upgrade() -> None:
    """Add the table and columns; the next revision fills them in and checks them, without their locks."""
    op.create_table(
        "editing_drafts",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("video_project_id", sa.Uuid(), nullable=False),
        _text("request_id"),
        _text("request_digest"),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column(
            "clip_ids",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'::jsonb"),
            nullable=False,
        ),
        _text("draft_root"),
        sa.Column("draft_status", sa.Text(), nullable=False),
        sa.Column("draft_task_id", sa.Uuid(), nullable=False),
        _number("draft_seen_version"),
        _text("error_reason"),
        _text("error_message"),
        _text("media_key"),
        _number("size_bytes"),
        _text("sha1"),
        _text("file_name"),
        _number("duration_ms"),
        _text("frame_rate"),
        _time("created_at"),
        _time("updated_at"),
        sa.Column("completed_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint(
            "draft_status IN ('pending', 'processing', 'completed', 'failed')", name="editing_drafts_status"
        ),
        sa.CheckConstraint("format IN ('otio', 'fcp7_xml', 'srt', 'jianying')", name="editing_drafts_format"),
        sa.CheckConstraint("draft_status <> 'completed' OR media_key <> ''", name="editing_drafts_completed"),
        sa.ForeignKeyConstraint(["video_project_id"], ["asr.video_projects.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        schema="asr",
    )
    op.create_index("editing_drafts_project", "editing_drafts", ["video_project_id"], schema="asr")
    op.create_index(
        "editing_drafts_request_key",
        "editing_drafts",
        ["request_id"],
        unique=True,
        schema="asr",
        postgresql_where=sa.text("request_id <> ''"),
    )
    for name, column, where in (
        ("editing_drafts_active", "id", "draft_status IN ('pending', 'processing')"),
        ("editing_drafts_failed", "updated_at", "draft_status = 'failed'"),
    ):
        op.create_index(name, "editing_drafts", [column], schema="asr", postgresql_where=sa.text(where))
    for added in (_text("draft_format"), _text("draft_root"), _text("cut_mode", "'exact'")):
        op.add_column("video_projects", added, schema="asr")
    for added in (_number("chosen_start_ms"), _text("words_source")):
        op.add_column("clips", added, schema="asr")
    op.execute(
        "ALTER TABLE asr.video_projects "
        "ADD CONSTRAINT video_projects_cut_mode CHECK (cut_mode IN ('exact', 'fast')) NOT VALID"
    )


def downgrade() -> None:
    """Drop what was added."""
    op.drop_constraint("video_projects_cut_mode", "video_projects", schema="asr")
    for name in ("words_source", "chosen_start_ms"):
        op.drop_column("clips", name, schema="asr")
    for name in ("cut_mode", "draft_root", "draft_format"):
        op.drop_column("video_projects", name, schema="asr")
    op.drop_table("editing_drafts", schema="asr")
