"""Count how often an image's host asked for a pause.

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
    op.add_column(
        "job_images",
        sa.Column("pauses", sa.Integer(), server_default=sa.text("0"), nullable=False),
        schema="ingest",
    )


def downgrade() -> None:
    op.drop_column("job_images", "pauses", schema="ingest")
