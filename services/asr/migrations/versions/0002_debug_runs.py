"""Debug records: one row for each run

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; runs before this release have no row, and their records go with their material."""
    op.create_table(
        "debug_runs",
        sa.Column("material_id", sa.Uuid(), nullable=False),
        sa.Column("asr_version", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), server_default=sa.text("'running'"), nullable=False),
        sa.Column("pinned", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint("outcome IN ('running', 'completed', 'failed')", name="debug_runs_outcome"),
        sa.ForeignKeyConstraint(["material_id"], ["asr.live_materials.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("material_id", "asr_version"),
        schema="asr",
    )
    op.create_index("debug_runs_newest", "debug_runs", ["started_at"], schema="asr")


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("debug_runs", schema="asr")
