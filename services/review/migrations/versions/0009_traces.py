"""The trace that brought a draft in.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_TABLES = ("brand_runway_drafts", "street_snap_drafts")


def upgrade() -> None:
    """Add the column; rows of the release before have no trace, and its servers write none."""
    for table in _TABLES:
        column = sa.Column("trace_parent", sa.Text(), server_default=sa.text("''"), nullable=False)
        op.add_column(table, column, schema="review")


def downgrade() -> None:
    """Drop the column."""
    for table in _TABLES:
        op.drop_column(table, "trace_parent", schema="review")
