"""queues

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "queue_counts",
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("pending", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("processing", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("completed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("failed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("cancelled", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("type"),
        schema="task",
        postgresql_with={"fillfactor": "50"},
    )
    op.create_table(
        "queue_deltas",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("pending", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("processing", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("completed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("failed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("cancelled", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("created", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("ended", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        schema="task",
        postgresql_with={"autovacuum_vacuum_scale_factor": "0.01"},
    )
    op.create_table(
        "queue_minutes",
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("minute", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("ended", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("type", "minute"),
        schema="task",
        postgresql_with={"fillfactor": "50"},
    )
    op.create_table(
        "queue_policies",
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("paused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("concurrency_limit", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("lease_seconds", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("stall_seconds", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("max_attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("running", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_by", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.CheckConstraint(
            "concurrency_limit >= 0 AND lease_seconds >= 0 AND stall_seconds >= 0 AND max_attempts >= 0",
            name="ck_queue_policies_bounds",
        ),
        sa.PrimaryKeyConstraint("type"),
        schema="task",
        postgresql_with={"fillfactor": "50"},
    )
    op.create_table(
        "workers",
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.Column("types", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "first_seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column(
            "last_seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("worker_id"),
        schema="task",
    )
    op.create_index("ix_workers_last_seen", "workers", ["last_seen_at"], unique=False, schema="task")
    op.add_column(
        "tasks",
        sa.Column("trace_parent", sa.Text(), server_default=sa.text("''"), nullable=False),
        schema="task",
    )
    # The counters begin with what is there; from here on every change is noted.
    op.execute("LOCK TABLE task.tasks IN SHARE ROW EXCLUSIVE MODE")
    op.execute("""
        INSERT INTO task.queue_counts (type, pending, processing, completed, failed, cancelled)
        SELECT type,
            count(*) FILTER (WHERE status = 'pending'), count(*) FILTER (WHERE status = 'processing'),
            count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'failed'),
            count(*) FILTER (WHERE status = 'cancelled')
        FROM task.tasks GROUP BY type""")


def downgrade() -> None:
    op.drop_column("tasks", "trace_parent", schema="task")
    op.drop_index("ix_workers_last_seen", table_name="workers", schema="task")
    op.drop_table("workers", schema="task")
    op.drop_table("queue_policies", schema="task")
    op.drop_table("queue_minutes", schema="task")
    op.drop_table("queue_deltas", schema="task")
    op.drop_table("queue_counts", schema="task")
