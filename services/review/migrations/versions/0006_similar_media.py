"""near-duplicates of media

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
    op.add_column("media", sa.Column("dhash", sa.BigInteger(), nullable=True), schema="review")
    op.create_table(
        "media_bands",
        sa.Column("band", sa.SmallInteger(), nullable=False),
        sa.Column("value", sa.Integer(), nullable=False),
        sa.Column("media_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["media_id"], ["review.media.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("band", "value", "media_id"),
        schema="review",
    )
    op.create_index("ix_media_bands_media", "media_bands", ["media_id"], schema="review")
    op.create_table(
        "similar_dismissals",
        sa.Column("media_id", sa.BigInteger(), nullable=False),
        sa.Column("other_id", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(length=256), server_default=sa.text("''"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("media_id < other_id", name="similar_dismissals_order"),
        sa.ForeignKeyConstraint(["media_id"], ["review.media.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["other_id"], ["review.media.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("media_id", "other_id"),
        schema="review",
    )
    op.create_index("ix_similar_dismissals_other", "similar_dismissals", ["other_id"], schema="review")


def downgrade() -> None:
    op.drop_table("similar_dismissals", schema="review")
    op.drop_table("media_bands", schema="review")
    op.drop_column("media", "dhash", schema="review")
