"""difference hashes beside their parts

A look-up compares the hashes inside the index and reads only the images that are near. Rows that the previous
release adds meanwhile have no hash; they are compared by their image's.

Revision ID: 0008
Revises: 0007
"""

from alembic import op

from libs.common.migrate import build_index

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

allowed = {"ban-drop-constraint": "the key is the same, on an index that holds the hash, too"}


def upgrade() -> None:
    op.execute("ALTER TABLE review.media_bands ADD COLUMN IF NOT EXISTS dhash bigint")
    with op.get_context().autocommit_block():
        op.execute(
            "UPDATE review.media_bands b SET dhash = m.dhash FROM review.media m "
            "WHERE m.id = b.media_id AND b.dhash IS NULL"
        )
        build_index(
            "review", "media_bands_key", "media_bands (band, value, media_id) INCLUDE (dhash)", unique=True
        )
    op.execute(
        "ALTER TABLE review.media_bands DROP CONSTRAINT media_bands_pkey, "
        "ADD CONSTRAINT media_bands_pkey PRIMARY KEY USING INDEX media_bands_key"
    )


def downgrade() -> None:
    op.execute(
        "ALTER TABLE review.media_bands DROP CONSTRAINT media_bands_pkey, DROP COLUMN dhash, "
        "ADD CONSTRAINT media_bands_pkey PRIMARY KEY (band, value, media_id)"
    )
