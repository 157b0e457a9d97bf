"""hundredths of progress

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
    column = sa.Column("progress_hundredths", sa.SmallInteger(), server_default=sa.text("0"), nullable=False)
    op.add_column("tasks", column, schema="task")


def downgrade() -> None:
    op.drop_column("tasks", "progress_hundredths", schema="task")
