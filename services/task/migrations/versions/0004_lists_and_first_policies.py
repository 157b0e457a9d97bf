"""lists of failed and named tasks, first policies that stop nobody

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

from libs.common.migrate import build_index

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_INDEXES = {
    "ix_tasks_unsuccessful": "tasks (created_at, id) WHERE status IN ('failed', 'cancelled')",
    "ix_tasks_named": "tasks (created_at, id) WHERE live_material_name <> '' OR video_project_name <> ''",
}


def upgrade() -> None:
    counted = sa.Column("counted", sa.Boolean(), server_default=sa.text("true"), nullable=False)
    op.add_column("queue_policies", counted, schema="task", if_not_exists=True)
    with op.get_context().autocommit_block():
        for name, definition in _INDEXES.items():
            build_index("task", name, definition)


def downgrade() -> None:
    for name in _INDEXES:
        op.execute(f"DROP INDEX task.{name}")
    op.drop_column("queue_policies", "counted", schema="task")
