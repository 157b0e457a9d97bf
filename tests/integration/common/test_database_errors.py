"""What the database's errors mean, on a real server."""

from collections.abc import AsyncIterator

import pytest
import sqlalchemy.exc
from sqlalchemy import (
    CheckConstraint,
    Column,
    ColumnElement,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    TextClause,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import insert

from libs.common.db import Database, constraint_of, is_bad_data, is_transient, sqlstate
from libs.common.settings import DatabaseSettings

METADATA = MetaData(schema="shop")
ITEM = Table(
    "item",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", String(8), nullable=False),
    Column("url", String(64), nullable=False, server_default=text("''")),
    Column("price", Integer, nullable=False, server_default=text("1")),
    UniqueConstraint("name", name="item_name_unique"),
    CheckConstraint("price > 0", name="item_price_positive"),
    Index("item_url_unique", "url", unique=True, postgresql_where=text("url <> ''")),
)


@pytest.fixture(scope="module", autouse=True)
async def shop(database: Database) -> None:
    async with database.begin() as session:
        await session.execute(text("CREATE SCHEMA shop"))
        await (await session.connection()).run_sync(METADATA.create_all)


@pytest.fixture
async def impatient(database_url: str) -> AsyncIterator[Database]:
    """One connection, and little patience for anything."""
    settings = DatabaseSettings(
        url=database_url,
        pool_size=1,
        max_overflow=0,
        pool_timeout_seconds=0.2,
        command_timeout_seconds=5,
        statement_timeout_ms=200,
    )
    opened = Database(settings, "frontrow-impatient")
    yield opened
    await opened.close()


async def _error(database: Database, statement: str, **values: object) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the tests look at what it means
        async with database.begin() as session:
            await session.execute(text(statement), values)
    return caught.value


async def _scalar(database: Database, statement: str) -> object:
    async with database.begin() as session:
        return await session.scalar(text(statement))


async def test_a_unique_violation_names_the_constraint_that_refused(database: Database) -> None:
    await _scalar(database, "INSERT INTO shop.item VALUES (1, 'a', 'u') RETURNING id")
    by_key = await _error(database, "INSERT INTO shop.item VALUES (1, 'b')")
    by_name = await _error(database, "INSERT INTO shop.item VALUES (2, 'a')")
    by_index = await _error(database, "INSERT INTO shop.item VALUES (2, 'b', 'u')")
    assert {sqlstate(error) for error in (by_key, by_name, by_index)} == {"23505"}
    assert constraint_of(by_key) == "item_pkey"
    assert constraint_of(by_name) == "item_name_unique"
    assert constraint_of(by_index) == "item_url_unique"
    assert not is_transient(by_name)
    assert not is_bad_data(by_name)


async def test_a_check_violation_names_its_constraint_and_a_plain_error_names_none(
    database: Database,
) -> None:
    error = await _error(database, "INSERT INTO shop.item VALUES (3, 'c', '', 0)")
    assert (sqlstate(error), constraint_of(error)) == ("23514", "item_price_positive")
    assert constraint_of(ValueError("no database in it")) is None
    assert sqlstate(ValueError("no database in it")) is None


async def test_a_violation_in_a_savepoint_leaves_the_transaction_usable(database: Database) -> None:
    async with database.begin() as session:
        await session.execute(text("INSERT INTO shop.item VALUES (10, 'ten', 'u10')"))
        for number in range(11, 31):
            with pytest.raises(sqlalchemy.exc.IntegrityError) as caught:
                async with session.begin_nested():
                    await session.execute(insert(ITEM).values(id=number, name=f"n{number}", url="u10"))
            assert constraint_of(caught.value) == "item_url_unique"
    assert await _scalar(database, "SELECT count(*) FROM shop.item WHERE id >= 10 AND id < 31") == 1


async def test_a_bound_partial_predicate_fails_in_the_end_and_a_text_one_never(
    database: Database,
) -> None:
    await _scalar(database, "INSERT INTO shop.item VALUES (40, 'forty', 'u40') RETURNING id")

    async def refusals(predicate: ColumnElement[bool] | TextClause) -> set[str | None]:
        """Insert twenty duplicates on one connection; return the codes of those that failed."""
        found: set[str | None] = set()
        async with database.engine.connect() as connection:
            for number in range(20):
                values = insert(ITEM).values(id=41 + number, name="x", url="u40")
                statement = values.on_conflict_do_nothing(index_elements=["url"], index_where=predicate)
                try:
                    await connection.execute(statement)
                except sqlalchemy.exc.DBAPIError as error:
                    found.add(sqlstate(error))
                    await connection.rollback()
        return found

    assert await refusals(ITEM.c.url != "") == {"42P10"}
    assert await refusals(text("url <> ''")) == set()


@pytest.mark.parametrize(
    ("value", "code"),
    [("nul\x00inside", "22021"), ("lone\ud800surrogate", "22000"), ("far too long", "22001")],
)
async def test_a_value_that_cannot_be_stored_is_bad_data_for_ever(
    database: Database, value: str, code: str
) -> None:
    error = await _error(database, "INSERT INTO shop.item (id, name) VALUES (50, :value)", value=value)
    assert sqlstate(error) == code
    assert is_bad_data(error)
    assert not is_transient(error)


async def test_a_statement_over_its_time_is_transient_and_its_connection_lives(
    impatient: Database,
) -> None:
    error = await _error(impatient, "SELECT pg_sleep(5)")
    assert sqlstate(error) == "57014"
    assert is_transient(error)
    assert await _scalar(impatient, "SELECT 1") == 1


async def test_a_client_side_time_limit_looks_like_the_servers(database_url: str) -> None:
    settings = DatabaseSettings(url=database_url, pool_size=1, max_overflow=0, command_timeout_seconds=0.2)
    opened = Database(settings, "frontrow-test")
    error = await _error(opened, "SELECT pg_sleep(5)")
    assert sqlstate(error) == "57014"
    assert is_transient(error)
    assert await _scalar(opened, "SELECT 1") == 1
    await opened.close()


async def test_a_pool_without_a_free_connection_is_transient(impatient: Database) -> None:
    async with impatient.begin() as session:
        await session.execute(text("SELECT 1"))
        error = await _error(impatient, "SELECT 1")
    assert is_transient(error)


async def test_a_killed_connection_is_transient_and_the_next_transaction_gets_a_new_one(
    database: Database, impatient: Database
) -> None:
    pid = await _scalar(impatient, "SELECT pg_backend_pid()")
    assert await _scalar(database, f"SELECT pg_terminate_backend({pid}, 5000)")
    error = await _error(impatient, "SELECT 1")
    assert is_transient(error)
    assert await _scalar(impatient, "SELECT pg_backend_pid()") != pid


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://nobody@127.0.0.1:1/nothing",
        "postgresql://nobody@/nothing?host=/nonexistent/socket",
        "postgresql://nobody@no-such-host.invalid/nothing?sslmode=require",
    ],
)
async def test_a_server_that_is_not_there_is_transient(url: str) -> None:
    opened = Database(DatabaseSettings(url=url), "frontrow-test")
    error = await _error(opened, "SELECT 1")
    assert sqlstate(error) == "08001"
    assert is_transient(error)
    await opened.close()


async def test_a_deadlock_and_a_lock_not_had_in_time_are_transient(database: Database) -> None:
    async with database.begin() as holder:
        await holder.execute(text("LOCK TABLE shop.item IN ACCESS EXCLUSIVE MODE"))
        error = await _error(database, "LOCK TABLE shop.item NOWAIT")
    assert sqlstate(error) == "55P03"
    assert is_transient(error)
    raised = await _error(database, "DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$")
    assert is_transient(raised)


async def test_after_a_migration_an_old_connection_fails_once_as_transient_and_then_works(
    database: Database, impatient: Database
) -> None:
    async with database.begin() as session:
        await session.execute(text("CREATE TABLE shop.shelf AS SELECT 1 AS place"))
    assert await _scalar(impatient, "SELECT * FROM shop.shelf") == 1
    async with database.begin() as session:
        await session.execute(text("ALTER TABLE shop.shelf ALTER COLUMN place TYPE text"))
    error = await _error(impatient, "SELECT * FROM shop.shelf")
    assert sqlstate(error) == "0A000"
    assert is_transient(error)
    assert await _scalar(impatient, "SELECT * FROM shop.shelf") == "1"


async def test_another_unsupported_feature_is_not_transient(database: Database) -> None:
    error = await _error(database, "DO $$ BEGIN RAISE SQLSTATE '0A000'; END $$")
    assert sqlstate(error) == "0A000"
    assert not is_transient(error)


async def test_an_error_never_tells_the_values_of_its_statement(database: Database) -> None:
    with pytest.raises(sqlalchemy.exc.DBAPIError) as refused:
        async with database.begin() as session:
            await session.execute(insert(ITEM).values(name="far too long a name", url="secret-payload"))
    assert "INSERT INTO shop.item" in str(refused.value)
    assert "secret-payload" not in str(refused.value)
