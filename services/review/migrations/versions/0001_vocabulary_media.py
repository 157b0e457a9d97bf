"""vocabulary and media

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "brands",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("canonical_id", sa.BigInteger(), nullable=True),
        sa.Column("root_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("canonical_id <> id", name="brands_canonical"),
        sa.ForeignKeyConstraint(
            ["canonical_id"],
            ["review.brands.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        schema="review",
    )
    op.create_index("ix_brands_root", "brands", ["root_id"], schema="review")
    op.create_table(
        "cities",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("known", sa.Boolean(), nullable=False),
        sa.Column("canonical_id", sa.BigInteger(), nullable=True),
        sa.Column("root_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("canonical_id <> id", name="cities_canonical"),
        sa.ForeignKeyConstraint(
            ["canonical_id"],
            ["review.cities.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        schema="review",
    )
    op.create_index("ix_cities_root", "cities", ["root_id"], schema="review")
    op.create_table(
        "media",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("content_type", sa.String(length=80), nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("height", sa.Integer(), nullable=False),
        sa.Column("parent_id", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.Text(), server_default=sa.text("'reserved'"), nullable=False),
        sa.Column("job_id", sa.String(length=64), server_default=sa.text("''"), nullable=False),
        sa.Column("touched_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("marked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("state IN ('reserved', 'live', 'deleting')", name="media_state"),
        sa.CheckConstraint("parent_id <> id", name="media_parent"),
        sa.ForeignKeyConstraint(["parent_id"], ["review.media.id"], ondelete="RESTRICT"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key", name="uq_media_key"),
        schema="review",
    )
    op.create_index(
        "ix_media_marked",
        "media",
        ["marked_at"],
        schema="review",
        postgresql_where=sa.text("marked_at IS NOT NULL"),
    )
    op.create_index(
        "ix_media_parent",
        "media",
        ["parent_id"],
        schema="review",
        postgresql_where=sa.text("parent_id IS NOT NULL"),
    )
    op.create_table(
        "seasons",
        sa.Column("code", sa.String(length=128), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("known", sa.Boolean(), nullable=False),
        sa.Column("canonical_code", sa.String(length=128), nullable=True),
        sa.Column("root_code", sa.String(length=128), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("canonical_code <> code", name="seasons_canonical"),
        sa.ForeignKeyConstraint(
            ["canonical_code"],
            ["review.seasons.code"],
        ),
        sa.PrimaryKeyConstraint("code"),
        schema="review",
    )
    op.create_index("ix_seasons_root", "seasons", ["root_code"], schema="review")
    op.create_table(
        "brand_aliases",
        sa.Column("folded", sa.Text(), nullable=False),
        sa.Column("brand_id", sa.BigInteger(), nullable=False),
        sa.Column("alias", sa.String(length=128), nullable=False),
        sa.ForeignKeyConstraint(
            ["brand_id"],
            ["review.brands.id"],
        ),
        sa.PrimaryKeyConstraint("folded"),
        schema="review",
    )
    op.create_index("ix_brand_aliases_brand", "brand_aliases", ["brand_id"], schema="review")
    op.create_table(
        "city_aliases",
        sa.Column("folded", sa.Text(), nullable=False),
        sa.Column("city_id", sa.BigInteger(), nullable=False),
        sa.Column("alias", sa.String(length=128), nullable=False),
        sa.ForeignKeyConstraint(
            ["city_id"],
            ["review.cities.id"],
        ),
        sa.PrimaryKeyConstraint("folded"),
        schema="review",
    )
    op.create_index("ix_city_aliases_city", "city_aliases", ["city_id"], schema="review")
    op.create_table(
        "season_aliases",
        sa.Column("folded", sa.Text(), nullable=False),
        sa.Column("season_code", sa.String(length=128), nullable=False),
        sa.Column("alias", sa.String(length=128), nullable=False),
        sa.Column("line", sa.String(length=64), server_default=sa.text("''"), nullable=False),
        sa.ForeignKeyConstraint(
            ["season_code"],
            ["review.seasons.code"],
        ),
        sa.PrimaryKeyConstraint("folded"),
        schema="review",
    )
    op.create_index("ix_season_aliases_season", "season_aliases", ["season_code"], schema="review")


def downgrade() -> None:
    op.drop_table("season_aliases", schema="review")
    op.drop_table("city_aliases", schema="review")
    op.drop_table("brand_aliases", schema="review")
    op.drop_table("seasons", schema="review")
    op.drop_table("media", schema="review")
    op.drop_table("cities", schema="review")
    op.drop_table("brands", schema="review")
