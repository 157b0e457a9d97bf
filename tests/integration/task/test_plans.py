"""Lists and watches find what they look for however many tasks have finished."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database
from services.task import repository_queue, repository_watch, statements_queue
from services.task.models import tasks
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


async def test_why_nothing_came_and_what_is_ahead_read_no_finished_tasks_that_pended_when_they_were_counted(
    session: AsyncSession,
) -> None:
    kind = new_type()
    new = (
        "INSERT INTO task.tasks (id, type, max_attempts, content_sha256, claim_order) "
        "SELECT gen_random_uuid(), :kind, 5, '', now() + n * interval '1 s' FROM generate_series(1, :count) n"
    )
    await session.execute(text(new), {"kind": kind, "count": FINISHED})
    await session.execute(text("ANALYZE task.tasks"))
    await session.execute(
        text(
            "UPDATE task.tasks SET status = 'cancelled', version = 1, completed_at = now() WHERE type = :kind"
        ),
        {"kind": kind},
    )
    await session.execute(text(new), {"kind": kind, "count": 3})
    query = select(tasks).where(tasks.c.type == kind, tasks.c.completed_at.is_(None))
    last = (await session.execute(query.order_by(tasks.c.claim_order.desc()).limit(1))).mappings().one()
    [reason] = await repository_queue.idle(session, [kind])
    assert reason["claimable"]
    assert await repository_queue.ahead(session, last) == 2
    place = {"type": kind, "claim_order": last["claim_order"], "id": last["id"], "most": 1_000}
    for statement, values in (
        (statements_queue.IDLE, {"types": [kind, "nobody"]}),
        (statements_queue.AHEAD, place),
    ):
        told = await session.scalar(text(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}"), values)
        plan = (json.loads(told) if isinstance(told, str) else told)[0]["Plan"]
        assert _read(_scans(plan)) < FINISHED / 2, plan
