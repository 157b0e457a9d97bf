"""Hosts that asked to be left alone, for all workers.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "host_pauses",
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("host"),
        schema="ingest",
    )


def downgrade() -> None:
    op.drop_table("host_pauses", schema="ingest")
