"""What the database's errors mean, on a real server."""

import asyncio

import asyncpg
import pytest
import sqlalchemy.exc
from sqlalchemy import text

from libs.common.db import Database, constraint_of, is_bad_data, is_transient, sqlstate
from libs.common.settings import DatabaseSettings


@pytest.fixture(scope="module")
async def table(database: Database) -> None:
    async with database.begin() as session:
        await session.execute(text("CREATE SCHEMA shop"))
        await session.execute(
            text(
                "CREATE TABLE shop.item (id int CONSTRAINT item_pk PRIMARY KEY, name varchar(8) NOT NULL"
                " CONSTRAINT item_name_unique UNIQUE, price int CONSTRAINT item_price_positive CHECK (price > 0))"
            )
        )


async def _error(database: Database, statement: str, **values: object) -> BaseException:
    with pytest.raises(sqlalchemy.exc.DBAPIError) as caught:
        async with database.begin() as session:
            await session.execute(text(statement), values)
    return caught.value


async def test_a_unique_violation_names_the_constraint_that_refused(database: Database, table: None) -> None:
    async with database.begin() as session:
        await session.execute(text("INSERT INTO shop.item VALUES (1, 'a', 1)"))
    by_key = await _error(database, "INSERT INTO shop.item VALUES (1, 'b', 1)")
    by_name = await _error(database, "INSERT INTO shop.item VALUES (2, 'a', 1)")
    assert (sqlstate(by_key), constraint_of(by_key)) == ("23505", "item_pk")
    assert (sqlstate(by_name), constraint_of(by_name)) == ("23505", "item_name_unique")
    assert not is_transient(by_name)
