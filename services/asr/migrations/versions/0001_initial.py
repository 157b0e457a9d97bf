"""initial tables

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table(
        "doomed_objects",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("passes", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("key"),
        schema="asr",
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "next_attempt_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("locked_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("dead_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        schema="asr",
    )
    op.create_index(
        "outbox_live_by_subject",
        "outbox",
        ["subject", "id"],
        unique=False,
        schema="asr",
        postgresql_where=sa.text("dead_at IS NULL"),
    )
    op.create_table(
        "uploads",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("file_name", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("committed_bytes", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("part_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("expected_sha1", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("sha1", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("media_key", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "sha1 = '' OR (committed_bytes = size_bytes AND media_key <> '')", name="uploads_finished"
        ),
        sa.CheckConstraint(
            "size_bytes > 0 AND committed_bytes BETWEEN 0 AND size_bytes", name="uploads_bytes"
        ),
        sa.PrimaryKeyConstraint("id"),
        schema="asr",
    )
    op.create_table(
        "live_materials",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("request_id", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("request_digest", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("remark", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("upload_id", sa.Uuid(), nullable=False),
        sa.Column("file_name", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("media_key", sa.Text(), nullable=False),
        sa.Column("canonical_key", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha1", sa.Text(), nullable=False),
        sa.Column("duration_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("width", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("height", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("missing_seconds", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("asr_status", sa.Text(), nullable=False),
        sa.Column("asr_version", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("asr_task_id", sa.Uuid(), nullable=True),
        sa.Column("seen_task_version", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("asr_progress", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("asr_error_reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("asr_error", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("asr_status = 'none' OR asr_task_id IS NOT NULL", name="live_materials_task"),
        sa.CheckConstraint(
            "asr_status IN ('none', 'pending', 'processing', 'completed', 'failed')",
            name="live_materials_status",
        ),
        sa.CheckConstraint("asr_progress BETWEEN 0 AND 100", name="live_materials_progress"),
        sa.ForeignKeyConstraint(["upload_id"], ["asr.uploads.id"], ondelete="RESTRICT"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", name="live_materials_name_key"),
        sa.UniqueConstraint("upload_id", name="live_materials_upload_key"),
        schema="asr",
    )
    op.create_index(
        "live_materials_following",
        "live_materials",
        ["id"],
        unique=False,
        schema="asr",
        postgresql_where=sa.text("asr_status IN ('pending', 'processing', 'failed')"),
    )
    op.create_index(
        "live_materials_request_key",
        "live_materials",
        ["request_id"],
        unique=True,
        schema="asr",
        postgresql_where=sa.text("request_id <> ''"),
    )
    op.create_table(
        "upload_parts",
        sa.Column("upload_id", sa.Uuid(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("object_key", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["upload_id"], ["asr.uploads.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("upload_id", "part"),
        schema="asr",
    )
    op.create_table(
        "transcript_parts",
        sa.Column("material_id", sa.Uuid(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("asr_version", sa.BigInteger(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.Column("engine", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("language", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("utterances", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["material_id"], ["asr.live_materials.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("material_id", "part"),
        schema="asr",
    )
    op.create_table(
        "transcripts",
        sa.Column("material_id", sa.Uuid(), nullable=False),
        sa.Column("asr_version", sa.BigInteger(), nullable=False),
        sa.Column("engine", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("language", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("summaries_source", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("asr_raw", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("asr_summaries", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("utterance_count", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["material_id"], ["asr.live_materials.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("material_id"),
        schema="asr",
    )
    op.create_table(
        "video_projects",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("live_material_id", sa.Uuid(), nullable=False),
        sa.Column("request_id", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("request_digest", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("live_material_name", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("span_start_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("span_end_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("prompt", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("keywords", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("mode", sa.Text(), server_default=sa.text("'ai_slice'"), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("slice_task_id", sa.Uuid(), nullable=False),
        sa.Column("seen_task_version", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("error_reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("error_message", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("clips_source", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("mode IN ('ai_slice', 'ai_slice_draft')", name="video_projects_mode"),
        sa.CheckConstraint(
            "status IN ('pending', 'processing', 'completed', 'failed')", name="video_projects_status"
        ),
        sa.ForeignKeyConstraint(["live_material_id"], ["asr.live_materials.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        schema="asr",
    )
    op.create_index(
        "video_projects_material", "video_projects", ["live_material_id"], unique=False, schema="asr"
    )
    op.create_index(
        "video_projects_request_key",
        "video_projects",
        ["request_id"],
        unique=True,
        schema="asr",
        postgresql_where=sa.text("request_id <> ''"),
    )
    op.create_table(
        "clips",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("video_project_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "topics",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'::jsonb"),
            nullable=False,
        ),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.Column("media_key", sa.Text(), nullable=False),
        sa.Column("thumbnail_key", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha1", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("width", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("height", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("duration_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("start_ms >= 0 AND end_ms > start_ms", name="clips_span"),
        sa.ForeignKeyConstraint(["video_project_id"], ["asr.video_projects.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("video_project_id", "position", name="clips_position_key"),
        schema="asr",
    )
    op.create_table(
        "transcript_paragraphs",
        sa.Column("material_id", sa.Uuid(), nullable=False),
        sa.Column("paragraph", sa.Integer(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("first_utterance", sa.Integer(), nullable=False),
        sa.Column("utterance_count", sa.Integer(), nullable=False),
        sa.CheckConstraint("char_length(text) BETWEEN 1 AND 200", name="transcript_paragraphs_text"),
        sa.ForeignKeyConstraint(["material_id"], ["asr.transcripts.material_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("material_id", "paragraph"),
        schema="asr",
    )


def downgrade() -> None:

    op.drop_table("transcript_paragraphs", schema="asr")
    op.drop_table("clips", schema="asr")
    op.drop_index(
        "video_projects_request_key",
        table_name="video_projects",
        schema="asr",
        postgresql_where=sa.text("request_id <> ''"),
    )
    op.drop_index("video_projects_material", table_name="video_projects", schema="asr")
    op.drop_table("video_projects", schema="asr")
    op.drop_table("transcripts", schema="asr")
    op.drop_table("transcript_parts", schema="asr")
    op.drop_table("upload_parts", schema="asr")
    op.drop_index(
        "live_materials_request_key",
        table_name="live_materials",
        schema="asr",
        postgresql_where=sa.text("request_id <> ''"),
    )
    op.drop_index(
        "live_materials_following",
        table_name="live_materials",
        schema="asr",
        postgresql_where=sa.text("asr_status IN ('pending', 'processing', 'failed')"),
    )
    op.drop_table("live_materials", schema="asr")
    op.drop_table("uploads", schema="asr")
    op.drop_index(
        "outbox_live_by_subject",
        table_name="outbox",
        schema="asr",
        postgresql_where=sa.text("dead_at IS NULL"),
    )
    op.drop_table("outbox", schema="asr")
    op.drop_table("doomed_objects", schema="asr")
