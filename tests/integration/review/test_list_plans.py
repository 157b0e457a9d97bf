"""Lists and look-ups walk indexes, whatever is asked: no plan reads a large table from end to end."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from libs.common.db import Database
from services.review import (
    repository_cleanup,
    repository_list,
    repository_similar,
    statements_promotion,
)
from services.review.keys import PromotionKey, RunwayKey, StreetKey
from services.review.models import RUNWAY, STREET, GalleryTables
from services.review.repository_cleanup import Window
from services.review.repository_list import DraftFilter
from services.review.states import Status
from tests.statements import statements

ROWS = 10_000
LARGE = re.compile("media|media_bands|.*_images|.*_drafts")
GRACE = datetime.timedelta(hours=1)

_FILL = """
SET session_replication_role = replica;
INSERT INTO review.media (key, sha256, size_bytes, content_type, width, height, state, dhash, touched_at)
SELECT 'plan/' || n, '', 1, 'image/jpeg', 1, 1, 'live', n * 7919, now() - interval '1 day'
FROM generate_series(1, {rows}) n;
INSERT INTO review.media_bands (band, value, media_id, dhash)
SELECT band, (dhash >> (48 - 16 * band)) & 65535, id, dhash FROM review.media, generate_series(0, 3) band;
INSERT INTO review.street_snap_drafts (source, status, is_deleted, city_id, year, month)
SELECT 'vogue', CASE n % 3 WHEN 0 THEN 'approved' WHEN 1 THEN 'rejected' ELSE 'pending' END, n % 50 = 0,
    (SELECT min(id) FROM review.cities) + n % 40, 2007 + n / 500, 1 + n % 12
FROM generate_series(1, {rows}) n;
INSERT INTO review.brand_runway_drafts (source, status, is_deleted, brand_id, season_code)
SELECT 'vogue', CASE n % 3 WHEN 0 THEN 'approved' WHEN 1 THEN 'rejected' ELSE 'pending' END, n % 50 = 0,
    (SELECT min(id) FROM review.brands) + n % 40, 'FW26'
FROM generate_series(1, {rows}) n;
INSERT INTO review.street_snap_draft_images (draft_id, position, media_id)
SELECT n, p, 1 + (n + 7 * p) % {rows} FROM generate_series(1, {rows}) n, generate_series(0, 1) p;
INSERT INTO review.brand_runway_draft_images (draft_id, position, media_id)
SELECT draft_id, position, media_id FROM review.street_snap_draft_images;
INSERT INTO review.street_snap_images (official_id, position, media_id, draft_id)
SELECT draft_id, position, media_id, draft_id FROM review.street_snap_draft_images;
INSERT INTO review.brand_runway_images (official_id, position, media_id, draft_id)
SELECT draft_id, position, media_id, draft_id FROM review.street_snap_draft_images;
SET session_replication_role = origin;
ANALYZE
"""


@pytest.fixture(scope="module")
async def planner(database_url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Give a connection to a filled database that plans without looking at the values."""
    connection = await asyncpg.connect(database_url, statement_cache_size=0)
    await connection.execute(_FILL.format(rows=ROWS))
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    yield connection
    await connection.close()


def filters(tables: GalleryTables) -> Iterator[DraftFilter]:
    """Give each filter alone, each status with each other one, and each pair."""
    plain: list[dict[str, Any]] = [{"source": "vogue"}, {"source": "elle"}, {"show_deleted": True}]
    if tables is RUNWAY:
        plain += [{"brand": "Chanel"}, {"season": "FW26"}]
    else:
        plain += [{"city": "Copenhagen"}, {"year": 2019}, {"month": 2}]
    statuses: list[dict[str, Any]] = [{}, *({"statuses": (status,)} for status in Status)]
    for status, one in itertools.product(statuses, [{}, *plain]):
        yield DraftFilter(**status, **one)
    for one, other in itertools.combinations(plain, 2):
        yield DraftFilter(**{**one, **other})


async def plan_of(connection: asyncpg.Connection[asyncpg.Record], statement: str, values: Any) -> str:
    """Return the generic plan of a statement as the driver was given it, as JSON."""
    await connection.execute("DEALLOCATE ALL")
    await connection.execute(f"PREPARE asked AS {statement}")
    given = ", ".join(literal(value) for value in values)
    explain = f"EXPLAIN (FORMAT JSON) EXECUTE asked{f' ({given})' if given else ''}"
    return str(await connection.fetchval(explain))


def literal(value: Any) -> str:
    """Return a value as it is written in SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(literal, value))}]" if value else "'{}'"
    if isinstance(value, datetime.timedelta):
        return f"'{value.total_seconds()} s'"
    return "'" + str(value).replace("'", "''") + "'"


def nodes(plan: str) -> Iterator[dict[str, Any]]:
    """Give the nodes of a plan."""
    pending = [json.loads(plan)[0]["Plan"]]
    while pending:
        node = pending.pop()
        pending += node.get("Plans", [])
        yield node


def scanned(plan: str) -> list[str]:
    """Return the large tables that a plan reads from one end to the other."""
    return [
        node["Relation Name"]
        for node in nodes(plan)
        if node["Node Type"] == "Seq Scan" and LARGE.fullmatch(node["Relation Name"])
    ]


class Heard:
    """A connection of the driver's own, and the statements that it was asked."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self.connection = connection
        self.statements: list[tuple[str, Any]] = []
        connection.add_query_logger(lambda asked: self.statements.append((asked.query, asked.args)))

    async def last(self) -> tuple[str, Any]:
        """Return the last statement on the context's tables; the driver tells of it a moment later."""
        await asyncio.sleep(0)
        return next(asked for asked in reversed(self.statements) if "review." in asked[0])


@pytest.fixture
async def heard(database_url: str) -> AsyncIterator[Heard]:
    """Give a connection that notes what it is asked."""
    connection = await asyncpg.connect(database_url)
    yield Heard(connection)
    await connection.close()


@pytest.mark.parametrize("tables", [RUNWAY, STREET], ids=lambda tables: tables.kind)
async def test_no_page_of_drafts_is_found_by_a_scan(
    planner: asyncpg.Connection[asyncpg.Record], heard: Heard, tables: GalleryTables
) -> None:
    for wanted in filters(tables):
        await repository_list.list_drafts(heard.connection, tables, wanted, before_id=7_500, limit=51)
        statement, values = await heard.last()
        assert not scanned(await plan_of(planner, statement, values)), wanted


async def test_near_duplicates_are_found_without_a_scan(
    planner: asyncpg.Connection[asyncpg.Record], heard: Heard
) -> None:
    await repository_similar.find_similar(heard.connection, "plan/7", 6)
    statement, values = await heard.last()
    plan = await plan_of(planner, statement, values)
    assert not scanned(plan)
    # each part's look-up is a point of the index, and not a walk through all of it
    [looked_up] = [node for node in nodes(plan) if node.get("Relation Name") == "media_bands"]
    assert re.search(r"\(band = .*place.*\) AND \(value = .*place.*\)", looked_up["Index Cond"])


async def test_images_without_references_are_found_without_a_scan(
    planner: asyncpg.Connection[asyncpg.Record], database: Database
) -> None:
    with statements(database) as asked:
        async with database.begin() as session:
            window = await repository_cleanup.next_window(session, 100, 200)
            assert window is not None
            await repository_cleanup.count(session, window, GRACE)
            await repository_cleanup.mark(session, window, GRACE)
            await repository_cleanup.condemn(session, Window(100, 300), GRACE)
            await repository_cleanup.claim_condemned(session, 10, GRACE)
    for statement, values in asked:
        assert not scanned(await plan_of(planner, statement, values)), statement


@pytest.mark.parametrize(
    ("tables", "key"),
    [(RUNWAY, RunwayKey(1, "FW26", "ready-to-wear")), (STREET, StreetKey(1, 2026, 2))],
    ids=["runway", "street_snap"],
)
async def test_siblings_are_found_by_their_index_also_before_anybody_has_counted_them(
    planner: asyncpg.Connection[asyncpg.Record], tables: GalleryTables, key: PromotionKey
) -> None:
    statement = statements_promotion.recompute(tables)
    counted = planner.transaction()
    await counted.start()
    await planner.execute("DELETE FROM pg_statistic")
    try:
        plan = await plan_of(planner, statement.by_position, statement.arguments(key.columns()))
    finally:
        await counted.rollback()
    looks = [node for node in nodes(plan) if node.get("Relation Name") == tables.drafts.name]
    assert [look.get("Index Name") for look in looks] == [siblings_index(tables)], looks


def siblings_index(tables: GalleryTables) -> str:
    """Return the name of the index of a key's approved drafts."""
    [name] = [str(index.name) for index in tables.drafts.indexes if str(index.name).endswith("_siblings")]
    return name
