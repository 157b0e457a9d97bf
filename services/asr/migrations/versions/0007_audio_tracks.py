"""The audio tracks of recordings

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; materials of the release before have no track, which says that none is known."""
    column = sa.Column("audio_tracks", JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False)
    op.add_column("live_materials", column, schema="asr")


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("live_materials", "audio_tracks", schema="asr")
