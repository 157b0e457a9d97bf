"""The engine and its transactions, on a real server."""

import asyncio

import pytest
from sqlalchemy import BigInteger, Identity, String, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.pool import AsyncAdaptedQueuePool

from libs.common import lane
from libs.common.db import Database, is_transient
from libs.common.lanes import Lanes
from libs.common.settings import DatabaseSettings
from libs.common.testing import eventually


class Rows(DeclarativeBase):
    pass


class Note(Rows):
    __tablename__ = "note"
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    words: Mapped[str] = mapped_column(String, nullable=False)


@pytest.fixture(scope="module", autouse=True)
async def note(database: Database) -> None:
    async with database.begin() as session:
        await (await session.connection()).run_sync(Rows.metadata.create_all)


async def _words(database: Database) -> list[str]:
    async with database.begin() as session:
        return list(await session.scalars(text("SELECT words FROM note ORDER BY id")))


async def test_a_block_commits_at_its_end_and_rolls_back_when_it_raises(database: Database) -> None:
    async with database.begin() as session:
        await session.execute(text("INSERT INTO note (words) VALUES ('kept')"))

    async def fail() -> None:
        async with database.begin() as session:
            await session.execute(text("INSERT INTO note (words) VALUES ('lost')"))
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        await fail()
    assert await _words(database) == ["kept"]


async def test_a_cancelled_block_rolls_back_and_gives_its_connection_back(database: Database) -> None:
    begun = asyncio.Event()

    async def work() -> None:
        async with database.begin() as session:
            await session.execute(text("INSERT INTO note (words) VALUES ('cancelled')"))
            begun.set()
            await session.execute(text("SELECT pg_sleep(30)"))

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "cancelled" not in await _words(database)
    assert isinstance(database.engine.pool, AsyncAdaptedQueuePool)
    assert database.engine.pool.checkedout() == 0


async def test_rows_read_in_a_transaction_stay_readable_after_it(database: Database) -> None:
    async with database.begin() as session:
        row = Note(words="read me later")
        session.add(row)
        await session.flush()
    assert row.words == "read me later"
    assert row.id > 0


async def test_connections_say_who_they_are_and_carry_their_limits(database_url: str) -> None:
    settings = DatabaseSettings(
        url=database_url, statement_timeout_ms=12_000, idle_in_transaction_timeout_ms=34_000
    )
    opened = Database(settings, "frontrow-" + "x" * 80)
    async with opened.begin() as session:
        shown = {
            name: await session.scalar(text(f"SHOW {name}"))
            for name in (
                "application_name",
                "statement_timeout",
                "idle_in_transaction_session_timeout",
                "timezone",
            )
        }
    await opened.close()
    assert shown == {
        "application_name": ("frontrow-" + "x" * 80)[:63],
        "statement_timeout": "12s",
        "idle_in_transaction_session_timeout": "34s",
        "timezone": "UTC",
    }


async def test_transactions_are_read_committed_whatever_the_database_has_for_a_default(
    database_url: str,
) -> None:
    settings = DatabaseSettings(url=database_url)
    opened, lanes = Database(settings, "frontrow-test"), Lanes(settings, "test", count=1)
    async with lanes.statements() as connection:
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_isolation = serializable')
    await lanes.close()
    try:
        async with opened.begin() as session, lanes.transaction() as connection:
            assert await session.scalar(text("SHOW transaction_isolation")) == "read committed"
            assert await connection.fetchval("SHOW transaction_isolation") == "read committed"
            await connection.execute(f'ALTER DATABASE "{name}" RESET default_transaction_isolation')
    finally:
        await opened.close()
        await lanes.close()


async def test_a_transaction_left_idle_is_ended_by_the_server(database: Database, database_url: str) -> None:
    settings = DatabaseSettings(url=database_url, idle_in_transaction_timeout_ms=100)
    opened = Database(settings, "frontrow-idle")

    async def gone() -> bool:
        async with database.begin() as session:
            return not await session.scalar(
                text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'frontrow-idle'")
            )

    async def linger() -> None:
        async with opened.begin() as session:
            await session.execute(text("SELECT 1"))
            await eventually(gone)
            await session.execute(text("SELECT 1"))

    with pytest.raises(Exception) as caught:  # noqa: PT011 - what it means is looked at below
        await linger()
    assert is_transient(caught.value)
    await opened.close()


async def test_without_a_statement_cache_nothing_stays_prepared_on_the_server(database_url: str) -> None:
    opened = Database(
        DatabaseSettings(url=database_url, pool_size=1, statement_cache_size=0), "frontrow-test"
    )
    for number in range(20):
        async with opened.begin() as session:
            assert await session.scalar(text("SELECT CAST(:n AS int)"), {"n": number}) == number
            assert await session.scalar(text("SELECT count(*) FROM pg_prepared_statements")) <= 1
    await opened.close()


async def test_the_pool_is_bounded(database_url: str) -> None:
    settings = DatabaseSettings(url=database_url, pool_size=1, max_overflow=1, pool_timeout_seconds=0.1)
    opened = Database(settings, "frontrow-bounded")
    async with opened.begin() as first, opened.begin() as second, opened.begin() as third:
        await first.execute(text("SELECT 1"))
        await second.execute(text("SELECT 1"))
        with pytest.raises(Exception, match="QueuePool limit") as caught:
            await third.execute(text("SELECT 1"))
    assert is_transient(caught.value)
    await opened.close()


async def test_sslmode_in_the_address_is_understood_by_the_pool_and_by_single_connections(
    database_url: str,
) -> None:
    mark = "&" if "?" in database_url else "?"
    settings = DatabaseSettings(url=f"{database_url}{mark}sslmode=prefer")
    opened = Database(settings, "frontrow-test")
    async with opened.begin() as session:
        assert await session.scalar(text("SELECT 1")) == 1
    await opened.close()
    single = await lane.connect(settings, "frontrow-test")
    assert await single.fetchval("SELECT 1") == 1
    await single.close()
