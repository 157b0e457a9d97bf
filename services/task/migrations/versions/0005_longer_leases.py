"""leases that a person shortened

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    longer = sa.Column("longer_lease_seconds", sa.Double(), server_default=sa.text("0"), nullable=False)
    op.add_column("queue_policies", longer, schema="task")
    op.add_column(
        "queue_policies", sa.Column("longer_lease_until", sa.DateTime(timezone=True)), schema="task"
    )


def downgrade() -> None:
    op.drop_column("queue_policies", "longer_lease_until", schema="task")
    op.drop_column("queue_policies", "longer_lease_seconds", schema="task")
