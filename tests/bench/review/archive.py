"""An archive of very many drafts and images, as many years of crawling would have left it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg

from services.review.seasons import parse_season
from tests.bench.bed import Bed
from tests.bench.review.galleries import IMAGES

DATABASE = "archive"
CHUNK = 250_000
FIRST_YEAR, YEARS = 2007, 20
# Every hundredth image is one that nothing refers to.
ORPHANS = 100
ORPHAN = f"id % {ORPHANS} = 0"
DRAFT_TABLES = ("brand_runway_drafts", "street_snap_drafts")
# One source has brought few articles, and those long ago.
RARE_SOURCE, RARE_DRAFTS = "elle", 40

# Common columns: the newest are undecided, a fiftieth is deleted; sources are as uneven as they are in life.
_COMMON = f"""
    CASE WHEN n <= {RARE_DRAFTS} THEN '{RARE_SOURCE}' WHEN random() < 0.7 THEN 'vogue'
        ELSE 'theimpression' END,
    'https://site.test/' || n, 'The best looks of the week, part ' || n,
    CASE WHEN n > 0.95 * $3::int8 THEN 'pending' WHEN random() < 0.8 THEN 'approved' ELSE 'rejected' END,
    random() < 0.02"""
_STREET = f"""
INSERT INTO review.street_snap_drafts
    (id, job_id, source, source_url, title, status, is_deleted, city, city_id, year, month)
SELECT n, 'job-' || n, {_COMMON}, 'city', ($4::int8[])[1 + floor(random() ^ 3 * cardinality($4::int8[]))],
    {FIRST_YEAR} + n * {YEARS} / ($3::int8 + 1), 1 + n * {YEARS * 12} / ($3::int8 + 1) % 12
FROM generate_series($1::int8, $2::int8) n
"""
_RUNWAY = f"""
INSERT INTO review.brand_runway_drafts
    (id, job_id, source, source_url, title, status, is_deleted, brand, brand_id, season, season_code,
        collection, collection_name, collection_key)
SELECT n, 'job-' || n, {_COMMON}, 'brand', ($4::int8[])[1 + floor(random() ^ 3 * cardinality($4::int8[]))],
    'season', ($5::text[])[1 + n * cardinality($5::text[]) / ($3::int8 + 1)],
    '', 'Ready-to-wear', 'ready-to-wear'
FROM generate_series($1::int8, $2::int8) n
"""
# An image a draft, which is its cover.
_IMAGES = f"""
INSERT INTO review.street_snap_draft_images (draft_id, position, media_id)
SELECT id, 0, id FROM generate_series($1::int8, $2::int8) id WHERE NOT {ORPHAN}
"""
# Hashes at random; every tenth is near to the one before it.
_MEDIA = """
INSERT INTO review.media (id, key, sha256, size_bytes, content_type, width, height, state, touched_at, dhash)
SELECT n, 'media/' || lpad(to_hex(n & 255), 2, '0') || '/' || lpad(to_hex(n), 40, '0') || '.jpg',
    lpad(to_hex(n), 64, '0'), 250000, 'image/jpeg', 1600, 2400, 'live', now() - interval '3 days',
    ('x' || left(md5((n - CASE WHEN n % 10 = 9 THEN 1 ELSE 0 END)::text), 16))::bit(64)::bigint
        # CASE WHEN n % 10 = 9 THEN 257 ELSE 0 END
FROM generate_series($1::int8, $2::int8) n
"""
_BANDS = """
INSERT INTO review.media_bands (band, value, media_id, dhash)
SELECT band, (dhash >> (48 - 16 * band)) & 65535 AS value, id, dhash
FROM review.media, generate_series(0, 3) band ORDER BY band, value, id
"""
_MORE_IMAGES = f"""
INSERT INTO review.{{table}} (draft_id, position, media_id)
SELECT DISTINCT ON (id, other) id, p, other -- sorted by draft, so that they lie together
FROM unnest($1::int8[]) id, generate_series(1, {IMAGES - 1}) p,
    LATERAL (SELECT 1 + (id + p * 7919) % $2 AS media_id) m,
    LATERAL (SELECT media_id - CASE WHEN media_id % {ORPHANS} = 0 THEN 1 ELSE 0 END AS other) o
WHERE other <> id
"""


async def opened(bed: Bed) -> str:
    """Return the URL of the archive's database; it is filled once a run."""
    connection = await bed.cluster.connect("postgres")
    there = await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE)
    await connection.close()
    if there:
        return bed.cluster.url(DATABASE)
    url = await bed.cluster.make_context_database(DATABASE, "review")
    connection = await bed.cluster.connect(DATABASE)
    await connection.execute("SET session_replication_role = replica")  # the rows are right; check nothing
    await connection.execute(
        "SET maintenance_work_mem = '256MB'; SET work_mem = '256MB'; SELECT setseed(0.5)"
    )
    try:
        await _fill(connection, size(bed))
    except BaseException:
        await bed.cluster.drop_database(DATABASE)
        raise
    await connection.close()
    await bed.cluster.settle(DATABASE)
    return url


def size(bed: Bed) -> int:
    """Return how many drafts of each kind there are, and how many images."""
    return bed.amount(1_000_000, 50_000)


async def _fill(connection: asyncpg.Connection[asyncpg.Record], count: int) -> None:
    brands = await connection.fetchval("SELECT array_agg(id ORDER BY id) FROM review.brands")
    cities = await connection.fetchval("SELECT array_agg(id ORDER BY id) FROM review.cities")
    seasons = await _seasons(connection)
    for table in ("media", "media_bands", "street_snap_draft_images", *DRAFT_TABLES):
        async with _without_indexes(connection, table):
            if table == "media":
                await connection.execute(_MEDIA, 1, count)
            elif table == "media_bands":
                await connection.execute(_BANDS)
            for first in range(1, count + 1, CHUNK):
                last = min(first + CHUNK - 1, count)
                if table == "street_snap_draft_images":
                    await connection.execute(_IMAGES, first, last)
                elif table == "street_snap_drafts":
                    await connection.execute(_STREET, first, last, count, cities)
                elif table == "brand_runway_drafts":
                    await connection.execute(_RUNWAY, first, last, count, brands, seasons)
        await connection.execute(f"VACUUM ANALYZE review.{table}")


async def _seasons(connection: asyncpg.Connection[asyncpg.Record]) -> list[str]:
    """Add the seasons of all the years; return their codes from the oldest on."""
    found = [
        parsed
        for year in range(FIRST_YEAR, FIRST_YEAR + YEARS)
        for text in (f"Spring {year} Ready-to-Wear", f"Fall {year} Ready-to-Wear")
        if (parsed := parse_season(text)) is not None
    ]
    rows = [(season.code, season.name) for season in found]
    await connection.executemany(
        "INSERT INTO review.seasons (code, name, known, root_code) VALUES ($1, $2, true, $1) "
        "ON CONFLICT DO NOTHING",
        rows,
    )
    return [code for code, _ in rows]


@asynccontextmanager
async def _without_indexes(connection: asyncpg.Connection[asyncpg.Record], table: str) -> AsyncIterator[None]:
    """Take away a table's indexes for the length of the block: they are built much more quickly at once."""
    plain = await connection.fetch(
        "SELECT indexname, indexdef FROM pg_indexes i WHERE schemaname = 'review' AND tablename = $1 "
        "AND NOT EXISTS (SELECT FROM pg_constraint WHERE conname = i.indexname)",
        table,
    )
    for row in plain:
        await connection.execute(f"DROP INDEX review.{row['indexname']}")
    yield
    for row in plain:
        await connection.execute(row["indexdef"])


async def cost_of_indexes(bed: Bed) -> tuple[float, float]:
    """Return the seconds that 10,000 more drafts take with all indexes, and without those of lists.

    Both in a transaction that is rolled back.
    """
    connection = await bed.cluster.connect(DATABASE)
    count, more = size(bed), 10_000
    cities = await connection.fetchval("SELECT array_agg(id ORDER BY id) FROM review.cities")
    seconds = []
    for without in (False, True):
        transaction = connection.transaction()
        await transaction.start()
        if without:
            names = await connection.fetch(
                "SELECT indexname FROM pg_indexes "
                "WHERE schemaname = 'review' AND indexname LIKE 'ix_ss_draft_page%'"
            )
            for row in names:
                await connection.execute(f"DROP INDEX review.{row['indexname']}")
        began = time.perf_counter()
        await connection.execute(_STREET, count + 1, count + more, count + more, cities)
        seconds.append(time.perf_counter() - began)
        await transaction.rollback()
    await connection.close()
    return seconds[0], seconds[1]


async def give_images(bed: Bed, table: str, drafts: Sequence[int]) -> None:
    """Give the drafts 60 images each: those on pages that are measured have what drafts have."""
    connection = await bed.cluster.connect(DATABASE)
    await connection.execute("SET session_replication_role = replica")
    images = f"{table.removesuffix('s')}_images"
    await connection.execute(_MORE_IMAGES.format(table=images), list(drafts), size(bed))
    await connection.close()
