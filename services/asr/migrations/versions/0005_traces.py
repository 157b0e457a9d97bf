"""The traces of what was asked for: calls in the outbox, uploads, recordings, projects.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_TABLES = ("outbox", "uploads", "live_materials", "video_projects")


def upgrade() -> None:
    """Add the column; rows of the release before have no trace, and its servers write none."""
    for table in _TABLES:
        column = sa.Column("trace_parent", sa.Text(), server_default=sa.text("''"), nullable=False)
        op.add_column(table, column, schema="asr")


def downgrade() -> None:
    """Drop the column."""
    for table in _TABLES:
        op.drop_column(table, "trace_parent", schema="asr")
