"""The editing drafts of the asr schema: rows of their own beside their project's (domain.md 2.10)."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from services.asr.models import metadata, video_projects

_NOW = text("now()")
_EMPTY = text("''")
_ZERO = text("0")

editing_drafts = Table(
    "editing_drafts",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("video_project_id", Uuid, ForeignKey(video_projects.c.id, ondelete="CASCADE"), nullable=False),
    Column("request_id", Text, nullable=False, server_default=_EMPTY),
    Column("request_digest", Text, nullable=False, server_default=_EMPTY),
    Column("format", Text, nullable=False),
    # in the order of the timeline; []: all of the project's
    Column("clip_ids", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("draft_root", Text, nullable=False, server_default=_EMPTY),
    Column("draft_status", Text, nullable=False),
    Column("draft_task_id", Uuid, nullable=False),
    Column("draft_seen_version", BigInteger, nullable=False, server_default=_ZERO),
    Column("error_reason", Text, nullable=False, server_default=_EMPTY),
    Column("error_message", Text, nullable=False, server_default=_EMPTY),
    # empty until completed
    Column("media_key", Text, nullable=False, server_default=_EMPTY),
    Column("size_bytes", BigInteger, nullable=False, server_default=_ZERO),
    Column("sha1", Text, nullable=False, server_default=_EMPTY),
    Column("file_name", Text, nullable=False, server_default=_EMPTY),
    Column("duration_ms", BigInteger, nullable=False, server_default=_ZERO),
    Column("frame_rate", Text, nullable=False, server_default=_EMPTY),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("completed_at", DateTime(timezone=True)),
    Index("editing_drafts_project", "video_project_id"),
    Index("editing_drafts_request_key", "request_id", unique=True, postgresql_where=text("request_id <> ''")),
    # the follower's polls
    Index("editing_drafts_active", "id", postgresql_where=text("draft_status IN ('pending', 'processing')")),
    Index("editing_drafts_failed", "updated_at", postgresql_where=text("draft_status = 'failed'")),
    Index("editing_drafts_failed_task", "draft_task_id", postgresql_where=text("draft_status = 'failed'")),
    CheckConstraint(
        "draft_status IN ('pending', 'processing', 'completed', 'failed')", name="editing_drafts_status"
    ),
    CheckConstraint("format IN ('otio', 'fcp7_xml', 'srt', 'jianying')", name="editing_drafts_format"),
    CheckConstraint("draft_status <> 'completed' OR media_key <> ''", name="editing_drafts_completed"),
)
