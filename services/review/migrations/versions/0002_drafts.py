"""drafts and their history

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "draft_events",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("draft_id", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("actor", sa.String(length=256), server_default=sa.text("''"), nullable=False),
        sa.Column("reason", sa.String(length=1000), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "changes", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        schema="review",
    )
    op.create_index("ix_draft_events_draft", "draft_events", ["kind", "draft_id", "id"], schema="review")
    op.create_table(
        "brand_runway_drafts",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("job_id", sa.String(length=64), server_default=sa.text("''"), nullable=False),
        sa.Column("source", sa.String(length=32), server_default=sa.text("''"), nullable=False),
        sa.Column("source_url", sa.String(length=512), server_default=sa.text("''"), nullable=False),
        sa.Column("title", sa.String(length=512), server_default=sa.text("''"), nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("is_deleted", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("revision", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("cover_media_id", sa.BigInteger(), nullable=True),
        sa.Column("reject_reason", sa.String(length=1000), server_default=sa.text("''"), nullable=False),
        sa.Column("decided_by", sa.String(length=256), server_default=sa.text("''"), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("brand", sa.String(length=128), server_default=sa.text("''"), nullable=False),
        sa.Column("brand_id", sa.BigInteger(), nullable=True),
        sa.Column("season", sa.String(length=128), server_default=sa.text("''"), nullable=False),
        sa.Column("season_code", sa.String(length=128), nullable=True),
        sa.Column("collection", sa.String(length=128), server_default=sa.text("''"), nullable=False),
        sa.Column("collection_name", sa.String(length=128), server_default=sa.text("''"), nullable=False),
        sa.Column("collection_key", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.CheckConstraint(
            "status IN ('pending', 'approved', 'rejected')", name="brand_runway_drafts_status"
        ),
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
        schema="review",
    )
    op.create_index(
        "ix_br_draft_brand",
        "brand_runway_drafts",
        ["brand_id", sa.literal_column("id DESC")],
        schema="review",
    )
    op.create_index(
        "ix_br_draft_cover",
        "brand_runway_drafts",
        ["cover_media_id"],
        schema="review",
        postgresql_where=sa.text("cover_media_id IS NOT NULL"),
    )
    op.create_index(
        "ix_br_draft_list_source",
        "brand_runway_drafts",
        ["source", sa.literal_column("id DESC")],
        schema="review",
    )
    op.create_index(
        "ix_br_draft_season",
        "brand_runway_drafts",
        ["season_code", sa.literal_column("id DESC")],
        schema="review",
    )
    op.create_index(
        "ix_br_draft_siblings",
        "brand_runway_drafts",
        ["brand_id", "season_code", "collection_key"],
        schema="review",
        postgresql_where=sa.text("status = 'approved' AND NOT is_deleted"),
    )
    op.create_index(
        "ix_br_draft_status", "brand_runway_drafts", ["status", sa.literal_column("id DESC")], schema="review"
    )
    op.create_index(
        "uq_br_draft_job",
        "brand_runway_drafts",
        ["job_id"],
        unique=True,
        schema="review",
        postgresql_where=sa.text("job_id <> ''"),
    )
    op.create_index(
        "uq_br_draft_source",
        "brand_runway_drafts",
        ["source", "source_url"],
        unique=True,
        schema="review",
        postgresql_where=sa.text("source_url <> ''"),
    )
    op.create_table(
        "street_snap_drafts",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("job_id", sa.String(length=64), server_default=sa.text("''"), nullable=False),
        sa.Column("source", sa.String(length=32), server_default=sa.text("''"), nullable=False),
        sa.Column("source_url", sa.String(length=512), server_default=sa.text("''"), nullable=False),
        sa.Column("title", sa.String(length=512), server_default=sa.text("''"), nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("is_deleted", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("revision", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("cover_media_id", sa.BigInteger(), nullable=True),
        sa.Column("reject_reason", sa.String(length=1000), server_default=sa.text("''"), nullable=False),
        sa.Column("decided_by", sa.String(length=256), server_default=sa.text("''"), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("city", sa.String(length=128), server_default=sa.text("''"), nullable=False),
        sa.Column("city_id", sa.BigInteger(), nullable=True),
        sa.Column("year", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("month", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint("status IN ('pending', 'approved', 'rejected')", name="street_snap_drafts_status"),
        sa.CheckConstraint("month BETWEEN 0 AND 12", name="street_snap_drafts_month"),
        sa.ForeignKeyConstraint(
            ["city_id"],
            ["review.cities.id"],
        ),
        sa.ForeignKeyConstraint(["cover_media_id"], ["review.media.id"], ondelete="RESTRICT"),
        sa.PrimaryKeyConstraint("id"),
        schema="review",
    )
    op.create_index(
        "ix_ss_draft_city", "street_snap_drafts", ["city_id", sa.literal_column("id DESC")], schema="review"
    )
    op.create_index(
        "ix_ss_draft_cover",
        "street_snap_drafts",
        ["cover_media_id"],
        schema="review",
        postgresql_where=sa.text("cover_media_id IS NOT NULL"),
    )
    op.create_index(
        "ix_ss_draft_list_source",
        "street_snap_drafts",
        ["source", sa.literal_column("id DESC")],
        schema="review",
    )
    op.create_index(
        "ix_ss_draft_siblings",
        "street_snap_drafts",
        ["city_id", "year", "month"],
        schema="review",
        postgresql_where=sa.text("status = 'approved' AND NOT is_deleted"),
    )
    op.create_index(
        "ix_ss_draft_status", "street_snap_drafts", ["status", sa.literal_column("id DESC")], schema="review"
    )
    op.create_index(
        "ix_ss_draft_year",
        "street_snap_drafts",
        ["year", "month", sa.literal_column("id DESC")],
        schema="review",
    )
    op.create_index(
        "uq_ss_draft_job",
        "street_snap_drafts",
        ["job_id"],
        unique=True,
        schema="review",
        postgresql_where=sa.text("job_id <> ''"),
    )
    op.create_index(
        "uq_ss_draft_source",
        "street_snap_drafts",
        ["source", "source_url"],
        unique=True,
        schema="review",
        postgresql_where=sa.text("source_url <> ''"),
    )
    op.create_table(
        "brand_runway_draft_images",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("draft_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("media_id", sa.BigInteger(), nullable=False),
        sa.Column("caption", sa.String(length=1000), server_default=sa.text("''"), nullable=False),
        sa.Column("original_url", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("hidden", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.ForeignKeyConstraint(["draft_id"], ["review.brand_runway_drafts.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["media_id"], ["review.media.id"], ondelete="RESTRICT"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("draft_id", "media_id", name="uq_br_draft_image_media"),
        sa.UniqueConstraint("draft_id", "position", deferrable=True, name="uq_br_draft_image_position"),
        schema="review",
    )
    op.create_index("ix_br_draft_image_media", "brand_runway_draft_images", ["media_id"], schema="review")
    op.create_table(
        "street_snap_draft_images",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("draft_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("media_id", sa.BigInteger(), nullable=False),
        sa.Column("caption", sa.String(length=1000), server_default=sa.text("''"), nullable=False),
        sa.Column("original_url", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("hidden", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.ForeignKeyConstraint(["draft_id"], ["review.street_snap_drafts.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["media_id"], ["review.media.id"], ondelete="RESTRICT"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("draft_id", "media_id", name="uq_ss_draft_image_media"),
        sa.UniqueConstraint("draft_id", "position", deferrable=True, name="uq_ss_draft_image_position"),
        schema="review",
    )
    op.create_index("ix_ss_draft_image_media", "street_snap_draft_images", ["media_id"], schema="review")


def downgrade() -> None:
    op.drop_table("street_snap_draft_images", schema="review")
    op.drop_table("brand_runway_draft_images", schema="review")
    op.drop_table("street_snap_drafts", schema="review")
    op.drop_table("brand_runway_drafts", schema="review")
    op.drop_table("draft_events", schema="review")
