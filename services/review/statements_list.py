"""The statement of a page of drafts: a walk in an index for each value that it begins with, never a scan.

Every filter has an index on (its column, status, is_deleted, -id). A page merges the first rows of each
status wanted (and of both kinds of deletion): no rare status makes the database walk through a common one.

Newest first is `ORDER BY -id`: the primary key can't serve that order. Otherwise a planner that takes matches
for evenly spread would walk it from the newest row down, and a filter whose rows are all old reads the table.
"""

# ruff: noqa: S608 - the parts put together here are constants, every value is a parameter

from __future__ import annotations

from functools import cache

from libs.common.named import Statement
from services.review.models import RUNWAY, GalleryTables
from services.review.statements_draft import select_drafts

# A limit that isn't known when the plan is made is guessed at a tenth of the table: it stands in the text.
LIMITS = (51, 201, 1001)

# The canonical id or code that a spelling stands for; for a season `season_code`, too, what it means if it
# isn't in the table of spellings.
ROOTS = {
    "brand": """(SELECT n.root_id FROM review.brand_aliases a JOIN review.brands n ON n.id = a.brand_id
        WHERE a.folded = :brand)""",
    "season": """(SELECT root_code FROM review.seasons WHERE code = coalesce(
        (SELECT season_code FROM review.season_aliases WHERE folded = :season), :season_code))""",
    "city": """(SELECT n.root_id FROM review.city_aliases a JOIN review.cities n ON n.id = a.city_id
        WHERE a.folded = :city)""",
}
# Its own, and those of all names that stand for it.
_CALLED = {
    "brand": f"SELECT id FROM review.brands WHERE root_id = {ROOTS['brand']}",
    "season": f"SELECT code FROM review.seasons WHERE root_code = {ROOTS['season']}",
    "city": f"SELECT id FROM review.cities WHERE root_id = {ROOTS['city']}",
}
_CONDITIONS = {
    "brand": f"d.brand_id = ANY (ARRAY({_CALLED['brand']}))",
    "season": f"d.season_code = ANY (ARRAY({_CALLED['season']}))",
    "city": f"d.city_id = ANY (ARRAY({_CALLED['city']}))",
    "year": "d.year = :year",
    "month": "d.month = :month",
    "source": "d.source = :source",
}
FILTERS = tuple(_CONDITIONS)
# filter that leads -> (where its values come from, the columns of its index that they are)
_HEADS = {
    "brand": (_CALLED["brand"], ("brand_id",)),
    "season": (_CALLED["season"], ("season_code",)),
    "city": (_CALLED["city"], ("city_id",)),
    "year and month": ("SELECT CAST(:year AS smallint), CAST(:month AS smallint)", ("year", "month")),
    "year": ("SELECT CAST(:year AS smallint), m FROM generate_series(0, 12) m", ("year", "month")),
    "month": ("SELECT CAST(:month AS smallint)", ("month",)),
    "source": ("SELECT CAST(:source AS text)", ("source",)),
    "": ("SELECT 1", ()),
}
_RUNWAY_ORDER = ("brand", "season", "source")
_STREET_ORDER = ("city", "year", "source", "month")

_PAGE = """
SELECT found.id
FROM ({heads}) head ({head_names})
CROSS JOIN unnest(CAST(:statuses AS text[])) AS wanted_status (status)
CROSS JOIN unnest(CAST(:deleted AS boolean[])) AS wanted_deletion (is_deleted)
CROSS JOIN LATERAL (
    SELECT d.id FROM {drafts} d
    WHERE {led} d.status = wanted_status.status AND d.is_deleted = wanted_deletion.is_deleted
        AND -d.id > :after{filtered}
    ORDER BY -d.id LIMIT {limit}
) found
ORDER BY -found.id LIMIT :limit
"""
# OFFSET 0 keeps the look-up of a row a look-up of its own, whatever the planner thinks of their number.
_ROWS = "page CROSS JOIN LATERAL (SELECT * FROM {drafts} WHERE id = page.id OFFSET 0) d"


@cache
def page(tables: GalleryTables, filters: frozenset[str], limit: int) -> Statement:
    """Return the query of a page of drafts, the newest first, with what `select_drafts` gives.

    `filters` names the filters that are set, `limit` is one of `LIMITS`. Parameters: one for each filter (for
    a name what `ROOTS` asks for), `statuses`, `deleted` (which values), `after` (minus the id that the page
    continues below) and `limit`.
    """
    lead, covered = _lead(tables, filters)
    heads, columns = _HEADS[lead]
    names = [f"h{number}" for number in range(max(1, len(columns)))]
    led = [f"d.{column} = head.{name} AND" for column, name in zip(columns, names, strict=False)]
    filtered = [f"\n        AND {_CONDITIONS[name]}" for name in sorted(filters - covered)]
    ids = _PAGE.format(
        heads=heads,
        head_names=", ".join(names),
        drafts=tables.drafts,
        led=" ".join(led),
        filtered="".join(filtered),
        limit=limit,
    )
    source = _ROWS.format(drafts=tables.drafts)
    rows = select_drafts(tables, "ORDER BY -d.id", source=source)
    return Statement(f"WITH page AS MATERIALIZED ({ids}){rows}")


def _lead(tables: GalleryTables, filters: frozenset[str]) -> tuple[str, set[str]]:
    """Return the filter whose index is walked, and the filters that this takes care of."""
    for name in _RUNWAY_ORDER if tables is RUNWAY else _STREET_ORDER:
        if name in filters:
            both = name == "year" and "month" in filters
            return ("year and month", {"year", "month"}) if both else (name, {name})
    return "", set()
