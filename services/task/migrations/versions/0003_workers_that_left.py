"""workers that left

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("left_at", sa.DateTime(timezone=True)), schema="task")


def downgrade() -> None:
    op.drop_column("workers", "left_at", schema="task")
