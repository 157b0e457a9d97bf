"""Each key's budget of submissions, shared by all servers.

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
    op.add_column(
        "spider_keys",
        sa.Column("budget", sa.Double(), server_default=sa.text("'Infinity'"), nullable=False),
        schema="ingest",
    )
    op.add_column(
        "spider_keys",
        sa.Column("budget_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        schema="ingest",
    )


def downgrade() -> None:
    op.drop_column("spider_keys", "budget_at", schema="ingest")
    op.drop_column("spider_keys", "budget", schema="ingest")
