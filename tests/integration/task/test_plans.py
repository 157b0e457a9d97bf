"""Lists and watches find what they look for however many tasks have finished."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database
from services.task import repository_watch
from services.task.repository import TaskFilter, page_query
from tests.integration.task.service import new_type

FINISHED = 20_000
_OPEN = {"ix_tasks_fresh", "ix_tasks_returned", "ix_tasks_delayed", "ix_tasks_running"}


@pytest.fixture
async def session(database: Database) -> AsyncIterator[AsyncSession]:
    """Give a transaction that sees many finished tasks, and rolls them back at the end."""
    async with database.begin() as opened:
        await opened.execute(
            text(
                "INSERT INTO task.tasks (id, type, max_attempts, content_sha256, claim_order, status, "
                "version, completed_at, created_at) SELECT gen_random_uuid(), :kind, 5, '', now(), "
                "'completed', 2, now(), now() - n * interval '1 s' FROM generate_series(1, :count) n"
            ),
            {"kind": new_type(), "count": FINISHED},
        )
        await opened.execute(text("ANALYZE task.tasks"))
        yield opened
        await opened.rollback()


async def _plan(session: AsyncSession, query: Any) -> dict[str, Any]:
    compiled = query.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True})
    explained = await session.execute(text(f"EXPLAIN (ANALYZE, FORMAT JSON) {compiled}".replace(":", r"\:")))
    told = explained.scalar_one()
    found: dict[str, Any] = (json.loads(told) if isinstance(told, str) else told)[0]["Plan"]
    return found


def _scans(node: dict[str, Any]) -> list[dict[str, Any]]:
    below = [scan for child in node.get("Plans", []) for scan in _scans(child)]
    return [node, *below] if "Scan" in node["Node Type"] else below


def _read(scans: list[dict[str, Any]]) -> int:
    """Return how many rows were looked at."""
    dropped = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    return sum(scan["Actual Rows"] + sum(scan.get(name, 0) for name in dropped) for scan in scans)


@pytest.mark.parametrize("wanted", [TaskFilter(), TaskFilter(types=["nobody"])])
async def test_a_watch_looks_at_unfinished_tasks_alone(session: AsyncSession, wanted: TaskFilter) -> None:
    unfinished = "SELECT count(*) FROM task.tasks WHERE completed_at IS NULL"
    count = (await session.execute(text(unfinished))).scalar_one()
    await session.execute(text("SET LOCAL enable_seqscan = off"))
    scans = _scans(await _plan(session, repository_watch.present(wanted)))
    assert {scan["Index Name"] for scan in scans if "Index Name" in scan} <= _OPEN
    assert _read(scans) <= 2 * count


async def test_a_watch_of_what_is_never_unfinished_asks_nothing() -> None:
    assert repository_watch.present(TaskFilter(statuses=["completed"])) is None


@pytest.mark.parametrize(
    "wanted",
    [
        TaskFilter(statuses=["failed"]),
        TaskFilter(types=["nobody"], statuses=["failed", "cancelled"]),
        TaskFilter(types=["nobody"], statuses=["pending"]),
        TaskFilter(types=["nobody"], statuses=["processing"]),
        TaskFilter(types=["nobody"], keyword_text="利率"),
        TaskFilter(types=["nobody"], keyword_text="rate | price"),
    ],
)
async def test_a_list_of_the_rare_walks_no_finished_tasks(session: AsyncSession, wanted: TaskFilter) -> None:
    plan = await _plan(session, page_query(wanted, after=None, limit=50))
    assert _read(_scans(plan)) < FINISHED / 2, plan
