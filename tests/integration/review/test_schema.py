"""The schema: its names, its indexes, and old rows that came in before articles had addresses."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from libs.common import migrate
from libs.common.testing import TestCluster


async def test_the_models_and_the_migrations_agree_from_empty_and_with_old_rows(
    empty_database_url: str,
) -> None:
    await migrate.upgrade(empty_database_url, "review", revision="0002")
    connection = await asyncpg.connect(empty_database_url)
    try:
        for table in ("brand_runway_drafts", "street_snap_drafts"):
            await connection.execute(
                f"INSERT INTO review.{table} (title) SELECT 'old' FROM generate_series(1, 3)"
            )
        await migrate.upgrade(empty_database_url, "review")
        await migrate.check(empty_database_url, "review")
        rows = await connection.fetch(
            "SELECT source, source_url, month, is_deleted FROM review.street_snap_drafts"
        )
        assert [tuple(row) for row in rows] == [("", "", 0, False)] * 3
        for table in ("brand_runway_drafts", "street_snap_drafts"):
            insert = f"INSERT INTO review.{table} (source, source_url) VALUES ('', 'https://a.test/x')"
            await connection.execute(insert)
            with pytest.raises(asyncpg.UniqueViolationError):
                await connection.execute(insert)
    finally:
        await connection.close()


async def test_an_index_that_a_broken_upgrade_left_is_built_anew_while_another_server_waits_to_upgrade(
    postgres: TestCluster,
) -> None:
    name = "ix_ss_draft_page_status"
    async with postgres.database(None) as url:
        await migrate.upgrade(url, "review", revision="0006")
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(
                "INSERT INTO review.street_snap_drafts (title) SELECT 'x' FROM generate_series(1, 3)"
            )
            with pytest.raises(asyncpg.UniqueViolationError):  # leaves an index that isn't valid
                await connection.execute(
                    f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON review.street_snap_drafts (status)"
                )
            await asyncio.gather(*(migrate.upgrade(url, "review") for _ in range(2)))
            row = await connection.fetchrow(
                "SELECT indisvalid, indisunique FROM pg_index WHERE indexrelid = to_regclass($1)",
                f"review.{name}",
            )
        finally:
            await connection.close()
    assert row is not None
    assert tuple(row) == (True, False)


async def test_the_source_indexes_have_their_names_and_do_not_look_at_deletion(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        rows = await connection.fetch(
            "SELECT indexname, tablename, indexdef FROM pg_indexes "
            "WHERE indexname LIKE 'uq_%_draft_source' ORDER BY 1"
        )
        month = await connection.fetchrow(
            "SELECT data_type, is_nullable, column_default FROM information_schema.columns "
            "WHERE table_schema = 'review' AND table_name = 'street_snaps' AND column_name = 'month'"
        )
    finally:
        await connection.close()
    assert [(row["indexname"], row["tablename"]) for row in rows] == [
        ("uq_br_draft_source", "brand_runway_drafts"),
        ("uq_ss_draft_source", "street_snap_drafts"),
    ]
    for row in rows:
        assert "(source, source_url)" in row["indexdef"]
        assert "<> ''" in row["indexdef"]
        assert "is_deleted" not in row["indexdef"]
    assert month is not None
    assert (month["data_type"], month["is_nullable"]) == ("smallint", "NO")
    assert month["column_default"].startswith("0") or "'0'" in month["column_default"]


async def test_an_official_image_refers_to_a_draft_that_is_there_when_a_change_is_committed(
    database_url: str,
) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(
            "INSERT INTO review.seasons (code, name, known, root_code) VALUES ('schema', '', true, 'schema')"
        )
        for kind, key, values in (
            ("street_snap", "city_id, year, month", "(SELECT min(id) FROM review.cities), 2026, 2"),
            (
                "brand_runway",
                "brand_id, season_code, collection_key",
                "(SELECT min(id) FROM review.brands), 'schema', 'x'",
            ),
        ):
            media = await connection.fetchval(
                "INSERT INTO review.media (key, sha256, size_bytes, content_type, width, height) "
                f"VALUES ('schema/{kind}', '', 1, 'image/jpeg', 1, 1) RETURNING id"
            )
            official = await connection.fetchval(
                f"INSERT INTO review.{kind}s ({key}) VALUES ({values}) RETURNING id"
            )
            made = f"INSERT INTO review.{kind}_drafts DEFAULT VALUES RETURNING id"
            delete = f"DELETE FROM review.{kind}_drafts WHERE id = $1"
            image = (
                f"INSERT INTO review.{kind}_images (official_id, position, media_id, draft_id) "
                "VALUES ($1, 0, $2, $3)"
            )
            draft = await connection.fetchval(made)
            await connection.execute(image, official, media, draft)
            with pytest.raises(asyncpg.ForeignKeyViolationError):
                await connection.execute(delete, draft)
            with pytest.raises(asyncpg.ForeignKeyViolationError):
                await connection.execute(f"UPDATE review.{kind}_images SET draft_id = $1", draft + 99)
            async with connection.transaction():  # as a purge does it
                await connection.execute(delete, draft)
                await connection.execute(f"DELETE FROM review.{kind}_images WHERE draft_id = $1", draft)
    finally:
        await connection.close()
