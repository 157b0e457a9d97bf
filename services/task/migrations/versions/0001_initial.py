"""initial tables

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "task_runs",
        sa.Column("task_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_as", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("late_writes", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint(
            "ended_as IN ('completed', 'failed', 'released', 'lost')", name="ck_task_runs_ended_as"
        ),
        sa.CheckConstraint(
            "outcome IN ('applied', 'requeued', 'failed', 'cancelled')", name="ck_task_runs_outcome"
        ),
        sa.PrimaryKeyConstraint("task_id", "version"),
        schema="task",
    )
    op.create_table(
        "tasks",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("version", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("progress", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("payload", sa.LargeBinary(), server_default=sa.text("''"), nullable=False),
        sa.Column("ext", sa.LargeBinary(), server_default=sa.text("''"), nullable=False),
        sa.Column("error_message", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("status_reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("subject", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("live_material_name", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("video_project_name", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("draft_url", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("video_url", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("clips_url", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("request_id", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("content_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("last_worker", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("absent_beats", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("claim_order", sa.DateTime(timezone=True), nullable=False),
        sa.Column("run_after", sa.DateTime(timezone=True), nullable=True),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("progress_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("(status = 'processing') = (claimed_by IS NOT NULL)", name="ck_tasks_claimed"),
        sa.CheckConstraint(
            "(status IN ('completed', 'failed', 'cancelled')) = (completed_at IS NOT NULL)",
            name="ck_tasks_completed",
        ),
        sa.CheckConstraint(
            "status IN ('pending', 'processing', 'completed', 'failed', 'cancelled')", name="ck_tasks_status"
        ),
        sa.CheckConstraint("char_length(error_message) <= 4000", name="ck_tasks_error_message"),
        sa.CheckConstraint("progress BETWEEN 0 AND 100", name="ck_tasks_progress"),
        sa.CheckConstraint("version >= 0 AND attempts >= 0", name="ck_tasks_counts"),
        sa.PrimaryKeyConstraint("id"),
        schema="task",
        postgresql_with={
            "fillfactor": "70",
            "autovacuum_vacuum_scale_factor": "0.01",
            "autovacuum_analyze_scale_factor": "0.02",
        },
    )
    op.create_index(
        "ix_tasks_completed",
        "tasks",
        ["completed_at"],
        unique=False,
        schema="task",
        postgresql_where=sa.text("completed_at IS NOT NULL"),
    )
    op.create_index("ix_tasks_created", "tasks", ["created_at", "id"], unique=False, schema="task")
    op.create_index(
        "ix_tasks_delayed",
        "tasks",
        ["due_at", "type"],
        unique=False,
        schema="task",
        postgresql_where=sa.text("status = 'pending' AND due_at IS NOT NULL"),
    )
    op.create_index(
        "ix_tasks_fresh",
        "tasks",
        ["type", "claim_order", "id"],
        unique=False,
        schema="task",
        postgresql_where=sa.text("status = 'pending' AND version = 0 AND priority = 0 AND run_after IS NULL"),
    )
    op.create_index(
        "ix_tasks_returned",
        "tasks",
        ["type", "claim_order", "id"],
        unique=False,
        schema="task",
        postgresql_where=sa.text(
            "status = 'pending' AND due_at IS NULL "
            "AND NOT (version = 0 AND priority = 0 AND run_after IS NULL)"
        ),
    )
    op.create_index(
        "ix_tasks_running",
        "tasks",
        ["claimed_by"],
        unique=False,
        schema="task",
        postgresql_where=sa.text("status = 'processing'"),
    )
    op.create_index(
        "ix_tasks_subject",
        "tasks",
        ["subject", "created_at"],
        unique=False,
        schema="task",
        postgresql_where=sa.text("subject <> ''"),
    )
    op.create_index(
        "uq_tasks_request_id",
        "tasks",
        ["request_id"],
        unique=True,
        schema="task",
        postgresql_where=sa.text("request_id <> ''"),
    )


def downgrade() -> None:
    op.drop_index(
        "uq_tasks_request_id", table_name="tasks", schema="task", postgresql_where=sa.text("request_id <> ''")
    )
    op.drop_index(
        "ix_tasks_subject", table_name="tasks", schema="task", postgresql_where=sa.text("subject <> ''")
    )
    op.drop_index(
        "ix_tasks_running",
        table_name="tasks",
        schema="task",
        postgresql_where=sa.text("status = 'processing'"),
    )
    op.drop_index(
        "ix_tasks_returned",
        table_name="tasks",
        schema="task",
        postgresql_where=sa.text(
            "status = 'pending' AND due_at IS NULL "
            "AND NOT (version = 0 AND priority = 0 AND run_after IS NULL)"
        ),
    )
    op.drop_index(
        "ix_tasks_fresh",
        table_name="tasks",
        schema="task",
        postgresql_where=sa.text("status = 'pending' AND version = 0 AND priority = 0 AND run_after IS NULL"),
    )
    op.drop_index(
        "ix_tasks_delayed",
        table_name="tasks",
        schema="task",
        postgresql_where=sa.text("status = 'pending' AND due_at IS NOT NULL"),
    )
    op.drop_index("ix_tasks_created", table_name="tasks", schema="task")
    op.drop_index(
        "ix_tasks_completed",
        table_name="tasks",
        schema="task",
        postgresql_where=sa.text("completed_at IS NOT NULL"),
    )
    op.drop_table("tasks", schema="task")
    op.drop_table("task_runs", schema="task")
