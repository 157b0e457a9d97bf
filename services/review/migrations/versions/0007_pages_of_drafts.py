"""indexes of the lists of drafts, and of the images that are being deleted

Each is built beside the traffic. One that a broken run left unfinished is built anew. Those that they
replace go last: the previous release lists without them as it does with them, only by another plan.

Revision ID: 0007
Revises: 0006
"""

from alembic import op

from libs.common.migrate import build_index

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_TABLES = {"br": "brand_runway_drafts", "ss": "street_snap_drafts"}
# name -> columns before (status, is_deleted, -id)
_NEW: dict[str, dict[str, list[str]]] = {
    "br": {"status": [], "source": ["source"], "brand": ["brand_id"], "season": ["season_code"]},
    "ss": {
        "status": [],
        "source": ["source"],
        "city": ["city_id"],
        "year": ["year", "month"],
        "month": ["month"],
    },
}
_OLD = {
    "br": {
        "brand": ["brand_id"],
        "season": ["season_code"],
        "status": ["status"],
        "list_source": ["source"],
    },
    "ss": {"city": ["city_id"], "year": ["year", "month"], "status": ["status"], "list_source": ["source"]},
}


def upgrade() -> None:
    with op.get_context().autocommit_block():
        for prefix, indexes in _NEW.items():
            for name, columns in indexes.items():
                listed = ", ".join([*columns, "status", "is_deleted", "(-id)"])
                build_index("review", f"ix_{prefix}_draft_page_{name}", f"{_TABLES[prefix]} ({listed})")
        build_index("review", "ix_media_deleting", "media (id) WHERE state = 'deleting'")
        for prefix, indexes in _OLD.items():
            for name in indexes:
                op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS review.ix_{prefix}_draft_{name}")


def downgrade() -> None:
    op.execute("DROP INDEX review.ix_media_deleting")
    for prefix, indexes in _OLD.items():
        for name, columns in indexes.items():
            listed = ", ".join([*columns, "id DESC"])
            op.execute(f"CREATE INDEX ix_{prefix}_draft_{name} ON review.{_TABLES[prefix]} ({listed})")
    for prefix, indexes in _NEW.items():
        for name in indexes:
            op.execute(f"DROP INDEX review.ix_{prefix}_draft_page_{name}")
