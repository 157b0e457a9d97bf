"""Failed rows by their tasks, for the followers, and what the results of chunks were made with

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

from libs.common.migrate import build_index

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_FOLLOWED = (
    ("live_materials", "asr_task_id", "asr_status"),
    ("video_projects", "slice_task_id", "status"),
    ("editing_drafts", "draft_task_id", "draft_status"),
)


def upgrade() -> None:
    """Add the indexes without locks, and a column that the release before leaves empty."""
    op.add_column(
        "transcript_parts",
        sa.Column("made_with", sa.Text(), server_default=sa.text("''"), nullable=False),
        schema="asr",
        if_not_exists=True,
    )
    with op.get_context().autocommit_block():
        for table, task, status in _FOLLOWED:
            build_index("asr", f"{table}_failed_task", f"{table} ({task}) WHERE {status} = 'failed'")


def downgrade() -> None:
    """Take them back."""
    for table, _, _ in _FOLLOWED:
        op.drop_index(f"{table}_failed_task", table, schema="asr")
    op.drop_column("transcript_parts", "made_with", schema="asr")
