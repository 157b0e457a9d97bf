"""Create the tables of the ingest schema.

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
        schema="ingest",
    )
    op.create_index(
        "outbox_live_by_subject",
        "outbox",
        ["subject", "id"],
        unique=False,
        schema="ingest",
        postgresql_where=sa.text("dead_at IS NULL"),
    )
    op.create_table(
        "spiders",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", name="uq_spiders_name"),
        schema="ingest",
    )
    op.create_index(
        "uq_spiders_request_id",
        "spiders",
        ["request_id"],
        unique=True,
        schema="ingest",
        postgresql_where=sa.text("request_id <> ''"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("spider_id", sa.Uuid(), nullable=False),
        sa.Column("request_id", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("request_digest", sa.LargeBinary(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("done_reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("failure_reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("error_message", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("title", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("source", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("source_url", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("gallery", sa.LargeBinary(), nullable=False),
        sa.Column("image_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("task_id", sa.Uuid(), nullable=False),
        sa.Column("seen_task_version", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("run_attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("draft_id", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("blocker", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("(status = 'failed') = (failure_reason <> '')", name="jobs_failure_reason"),
        sa.CheckConstraint(
            "(status IN ('done', 'failed')) = (finished_at IS NOT NULL)", name="jobs_finished"
        ),
        sa.CheckConstraint(
            "CASE WHEN status = 'done' THEN done_reason IN ('created', 'source_duplicate', 'source_conflict',"
            " 'entity_duplicate') ELSE done_reason = '' END",
            name="jobs_done_reason",
        ),
        sa.CheckConstraint("kind IN ('runway', 'street_snap')", name="jobs_kind"),
        sa.CheckConstraint("status IN ('pending', 'processing', 'done', 'failed')", name="jobs_status"),
        sa.ForeignKeyConstraint(
            ["spider_id"],
            ["ingest.spiders.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        schema="ingest",
    )
    op.create_index("jobs_by_source", "jobs", ["source", "id"], unique=False, schema="ingest")
    op.create_index("jobs_by_status", "jobs", ["status", "id"], unique=False, schema="ingest")
    op.create_index(
        "jobs_by_url",
        "jobs",
        ["source_url", "id"],
        unique=False,
        schema="ingest",
        postgresql_where=sa.text("source_url <> ''"),
    )
    op.create_index(
        "jobs_open",
        "jobs",
        ["id"],
        unique=False,
        schema="ingest",
        postgresql_where=sa.text("status IN ('pending', 'processing')"),
    )
    op.create_index(
        "uq_jobs_request_id",
        "jobs",
        ["spider_id", "request_id"],
        unique=True,
        schema="ingest",
        postgresql_where=sa.text("request_id <> ''"),
    )
    op.create_index("uq_jobs_task_id", "jobs", ["task_id"], unique=True, schema="ingest")
    op.create_table(
        "nonces",
        sa.Column("spider_id", sa.Uuid(), nullable=False),
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.Column("signed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["spider_id"], ["ingest.spiders.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("spider_id", "nonce"),
        schema="ingest",
    )
    op.create_index("nonces_by_time", "nonces", ["signed_at"], unique=False, schema="ingest")
    op.create_table(
        "spider_keys",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("spider_id", sa.Uuid(), nullable=False),
        sa.Column("request_id", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("sealed_secret", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["spider_id"], ["ingest.spiders.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key_id"),
        schema="ingest",
    )
    op.create_index("spider_keys_by_spider", "spider_keys", ["spider_id"], unique=False, schema="ingest")
    op.create_index(
        "uq_spider_keys_request_id",
        "spider_keys",
        ["spider_id", "request_id"],
        unique=True,
        schema="ingest",
        postgresql_where=sa.text("request_id <> ''"),
    )
    op.create_table(
        "job_images",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.SmallInteger(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("message", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("media_key", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("sha256", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("content_type", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("width", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("height", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("dhash", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "thumbnail_keys", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False
        ),
        sa.CheckConstraint("result IN ('stored', 'failed')", name="job_images_result"),
        sa.ForeignKeyConstraint(["job_id"], ["ingest.jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "position"),
        schema="ingest",
    )


def downgrade() -> None:
    op.drop_table("job_images", schema="ingest")
    op.drop_index(
        "uq_spider_keys_request_id",
        table_name="spider_keys",
        schema="ingest",
        postgresql_where=sa.text("request_id <> ''"),
    )
    op.drop_index("spider_keys_by_spider", table_name="spider_keys", schema="ingest")
    op.drop_table("spider_keys", schema="ingest")
    op.drop_index("nonces_by_time", table_name="nonces", schema="ingest")
    op.drop_table("nonces", schema="ingest")
    op.drop_index("uq_jobs_task_id", table_name="jobs", schema="ingest")
    op.drop_index(
        "uq_jobs_request_id", table_name="jobs", schema="ingest", postgresql_where=sa.text("request_id <> ''")
    )
    op.drop_index(
        "jobs_open",
        table_name="jobs",
        schema="ingest",
        postgresql_where=sa.text("status IN ('pending', 'processing')"),
    )
    op.drop_index(
        "jobs_by_url", table_name="jobs", schema="ingest", postgresql_where=sa.text("source_url <> ''")
    )
    op.drop_index("jobs_by_status", table_name="jobs", schema="ingest")
    op.drop_index("jobs_by_source", table_name="jobs", schema="ingest")
    op.drop_table("jobs", schema="ingest")
    op.drop_index(
        "uq_spiders_request_id",
        table_name="spiders",
        schema="ingest",
        postgresql_where=sa.text("request_id <> ''"),
    )
    op.drop_table("spiders", schema="ingest")
    op.drop_index(
        "outbox_live_by_subject",
        table_name="outbox",
        schema="ingest",
        postgresql_where=sa.text("dead_at IS NULL"),
    )
    op.drop_table("outbox", schema="ingest")
