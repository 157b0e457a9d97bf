"""Images of official rows refer to the drafts that they came from

Revision ID: 0010
Revises: 0009
"""

from alembic import op

from libs.common.migrate import build_index

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

allowed = {"ban-drop-constraint": "the one that a run which broke off has left goes, and comes again at once"}

# prefix -> the images of official rows, the drafts
_TABLES = {
    "br": ("brand_runway_images", "brand_runway_drafts"),
    "ss": ("street_snap_images", "street_snap_drafts"),
}


def upgrade() -> None:
    """Build what a purge looks by, say what is so from now on, then look at what is there.

    Checked at the commit: a purge removes the draft first and recomputes its page then.
    """
    with op.get_context().autocommit_block():
        for prefix, (images, _) in _TABLES.items():
            build_index("review", f"ix_{prefix}_image_draft", f"{images} (draft_id)")
    for images, drafts in _TABLES.values():
        # in the order in which an approval takes them: neither waits for what the other has
        op.execute(f"LOCK TABLE review.{drafts}, review.{images} IN SHARE ROW EXCLUSIVE MODE")
        op.execute(
            f"ALTER TABLE review.{images} DROP CONSTRAINT IF EXISTS {images}_draft_id_fkey, "
            f"ADD CONSTRAINT {images}_draft_id_fkey FOREIGN KEY (draft_id) REFERENCES review.{drafts} (id) "
            "DEFERRABLE INITIALLY DEFERRED NOT VALID"
        )
    with op.get_context().autocommit_block():
        for images, _ in _TABLES.values():
            op.execute(f"ALTER TABLE review.{images} VALIDATE CONSTRAINT {images}_draft_id_fkey")


def downgrade() -> None:
    """Take both away."""
    for prefix, (images, _) in _TABLES.items():
        op.execute(f"ALTER TABLE review.{images} DROP CONSTRAINT {images}_draft_id_fkey")
        op.execute(f"DROP INDEX review.ix_{prefix}_image_draft")
