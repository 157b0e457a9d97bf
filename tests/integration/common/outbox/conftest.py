"""Fixtures of the outbox's tests."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from libs.common.db import Database
from libs.common.outbox import OutboxRelay
from tests.integration.common.outbox.bed import METADATA, Receiver, Refusals, make_relay


@pytest.fixture(scope="module")
async def table(database: Database) -> None:
    async with database.begin() as session:
        await session.execute(text("CREATE SCHEMA shop"))
        await (await session.connection()).run_sync(METADATA.create_all)


@pytest.fixture(autouse=True)
async def empty(database: Database, table: None) -> None:
    async with database.begin() as session:
        await session.execute(text("TRUNCATE shop.outbox"))


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def refusals() -> Refusals:
    return Refusals()


@pytest.fixture
async def relay(database: Database, receiver: Receiver, refusals: Refusals) -> AsyncIterator[OutboxRelay]:
    made = make_relay(database, receiver, refusals)
    yield made
    await made.stop()
