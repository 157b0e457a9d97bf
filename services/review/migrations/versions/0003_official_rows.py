"""official rows

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
    op.create_table(
        "brand_runways",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("brand_id", sa.BigInteger(), nullable=False),
        sa.Column("season_code", sa.String(length=128), nullable=False),
        sa.Column("collection_key", sa.Text(), nullable=False),
        sa.Column("collection", sa.String(length=128), server_default=sa.text("''"), nullable=False),
        sa.Column("title", sa.String(length=512), server_default=sa.text("''"), nullable=False),
        sa.Column("cover_media_id", sa.BigInteger(), nullable=True),
        sa.Column("image_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("is_hidden", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["brand_id"],
            ["review.brands.id"],
        ),
        sa.ForeignKeyConstraint(["cover_media_id"], ["review.media.id"], ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(
            ["season_code"],
            ["review.seasons.code"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("brand_id", "season_code", "collection_key", name="uq_brand_runways_key"),
        schema="review",
    )
    op.create_index(
        "ix_br_cover",
        "brand_runways",
        ["cover_media_id"],
        schema="review",
        postgresql_where=sa.text("cover_media_id IS NOT NULL"),
    )
    op.create_index(
        "ix_br_visible", "brand_runways", ["id"], schema="review", postgresql_where=sa.text("NOT is_hidden")
    )
    op.create_table(
        "street_snaps",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("city_id", sa.BigInteger(), nullable=False),
        sa.Column("year", sa.SmallInteger(), nullable=False),
        sa.Column("month", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("title", sa.String(length=512), server_default=sa.text("''"), nullable=False),
        sa.Column("cover_media_id", sa.BigInteger(), nullable=True),
        sa.Column("image_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("is_hidden", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("year > 0 AND month BETWEEN 0 AND 12", name="street_snaps_month"),
        sa.ForeignKeyConstraint(
            ["city_id"],
            ["review.cities.id"],
        ),
        sa.ForeignKeyConstraint(["cover_media_id"], ["review.media.id"], ondelete="RESTRICT"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("city_id", "year", "month", name="uq_street_snaps_key"),
        schema="review",
    )
    op.create_index(
        "ix_ss_cover",
        "street_snaps",
        ["cover_media_id"],
        schema="review",
        postgresql_where=sa.text("cover_media_id IS NOT NULL"),
    )
    op.create_index(
        "ix_ss_visible", "street_snaps", ["id"], schema="review", postgresql_where=sa.text("NOT is_hidden")
    )
    op.create_table(
        "brand_runway_images",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("official_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("media_id", sa.BigInteger(), nullable=False),
        sa.Column("caption", sa.String(length=1000), server_default=sa.text("''"), nullable=False),
        sa.Column("draft_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["media_id"], ["review.media.id"], ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(["official_id"], ["review.brand_runways.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("official_id", "media_id", name="uq_br_image_media"),
        sa.UniqueConstraint("official_id", "position", name="uq_br_image_position"),
        schema="review",
    )
    op.create_index("ix_br_image_media", "brand_runway_images", ["media_id"], schema="review")
    op.create_table(
        "street_snap_images",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("official_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("media_id", sa.BigInteger(), nullable=False),
        sa.Column("caption", sa.String(length=1000), server_default=sa.text("''"), nullable=False),
        sa.Column("draft_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["media_id"], ["review.media.id"], ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(["official_id"], ["review.street_snaps.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("official_id", "media_id", name="uq_ss_image_media"),
        sa.UniqueConstraint("official_id", "position", name="uq_ss_image_position"),
        schema="review",
    )
    op.create_index("ix_ss_image_media", "street_snap_images", ["media_id"], schema="review")


def downgrade() -> None:
    op.drop_table("street_snap_images", schema="review")
    op.drop_table("brand_runway_images", schema="review")
    op.drop_table("street_snaps", schema="review")
    op.drop_table("brand_runways", schema="review")
