"""The relay finds its rows by index, whatever the planner believes of the table: no backlog slows it."""

from typing import Any

import pytest
from sqlalchemy import text

from libs.common.db import Database
from libs.common.outbox_rows import OutboxRows
from tests.integration.common.outbox.bed import OUTBOX
from tests.statements import statements

BACKLOG = 3_000
FILL = text(
    "INSERT INTO shop.outbox (subject, kind, body) SELECT 's' || n, 'call', 'b' FROM generate_series(1, :n) n"
)
ANALYSE = text("ANALYZE shop.outbox")


async def _plans(database: Database, seen: list[tuple[str, Any]]) -> list[str]:
    """Return how those that concern the table are done, each behind what was set before it."""
    plans = []
    async with database.begin() as session:
        connection = await session.connection()
        for statement, parameters in seen:
            if "shop.outbox" not in statement:
                await connection.exec_driver_sql(statement, parameters)
                continue
            told = await connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
            plans.append("\n".join(told.scalars()))
    return plans


@pytest.mark.parametrize("analysed", ["empty", "with one row", "with the backlog"])
async def test_what_is_due_is_leased_and_forgotten_by_index_alone(database: Database, analysed: str) -> None:
    async with database.begin() as session:
        if analysed == "with one row":
            await session.execute(FILL, {"n": 1})
        if analysed != "with the backlog":
            await session.execute(ANALYSE)
        await session.execute(FILL, {"n": BACKLOG})
        if analysed == "with the backlog":
            await session.execute(ANALYSE)
    rows = OutboxRows(database, OUTBOX, lease_seconds=10)
    with statements(database) as leasing:
        leased = await rows.claim(100)
    with statements(database) as forgetting:
        await rows.forget([leased[:50]])
    with statements(database) as giving_back:
        await rows.give_back(leased[50:], last_error="why", counted=False)
    with statements(database) as probing:
        probe = await rows.claim_next("call", BACKLOG // 2)
    assert [len(leased), len(probe)] == [100, 1]
    for seen in (leasing, forgetting, giving_back, probing):
        (plan,) = await _plans(database, seen)
        assert "Seq Scan on outbox" not in plan, plan
        assert "Sort" not in plan, plan
        assert "Hash" not in plan, plan
        assert "Merge" not in plan, plan
