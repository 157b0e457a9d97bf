"""The SQL decides as states.py does, and every hot statement finds its rows by index with a generic plan."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from libs.common.lane import Connection, Lane
from libs.common.settings import DatabaseSettings
from services.task import (
    statements,
    statements_claim,
    statements_create,
    statements_end,
    statements_queue,
    statements_work,
)
from services.task.repository_create import NewTask, create
from services.task.repository_end import Backoff, Ending, end_runs
from services.task.states import End, Status, status_after


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    """Give a lane's connection inside a transaction."""
    lane = Lane(DatabaseSettings(url=database_url), "test")
    async with lane.transaction() as opened:
        yield opened
    await lane.close()


def _new(kind: str) -> NewTask:
    return NewTask(uuid4(), False, "", kind, 0, b"", b"", "", "", "", 5, None)


async def test_the_end_of_a_run_in_sql_is_that_of_the_pure_decision(connection: Connection) -> None:
    kind = f"t{uuid4().hex[:8]}"
    cases = list(itertools.product(End, (False, True), (1, 2, 3), (False, True)))
    created = await create(connection, [_new(kind) for _ in cases])
    endings = []
    for answer, (end, retryable, attempts, cancelled) in zip(created, cases, strict=True):
        await connection.execute(
            "UPDATE task.tasks SET status = 'processing', version = 1, claimed_by = 'w', started_at = now(), "
            "heartbeat_at = now(), progress_at = now(), attempts = $2, max_attempts = 2, "
            "cancel_requested_at = CASE WHEN $3 THEN now() END WHERE id = $1",
            answer.row["id"], attempts, cancelled,
        )  # fmt: skip
        endings.append(Ending(answer.row["id"], 1, end, retryable=retryable, message="m"))
    result = await end_runs(connection, endings, Backoff(4.0, 6.0))
    ended = {task.task_id: task for task in result.ended}
    for ending, (end, retryable, attempts, cancelled) in zip(endings, cases, strict=True):
        expected = status_after(
            end, retryable=retryable, attempts=attempts, max_attempts=2, cancel_requested=cancelled
        )
        row = await connection.fetchrow(
            "SELECT *, due_at - now() AS pause FROM task.tasks WHERE id = $1", ending.task_id
        )
        assert row is not None
        assert row["status"] == ended[ending.task_id].status == expected
        uncharged = end is End.RELEASED and expected is Status.PENDING
        assert row["attempts"] == attempts - uncharged
        pause = row["pause"].total_seconds() if row["pause"] is not None else 0.0
        if end is End.FAILED and expected is Status.PENDING:
            assert 0 < pause <= 4
        else:
            assert pause == 0


@pytest.mark.parametrize(("attempts", "ceiling"), [(1, 1), (2, 2), (5, 16), (11, 600), (5_000, 600)])
async def test_the_pause_after_a_failure_is_drawn_from_all_up_to_a_ceiling_that_doubles_to_the_longest(
    connection: Connection, attempts: int, ceiling: float
) -> None:
    created = await create(connection, [_new("backoff") for _ in range(64)])
    ids = [answer.row["id"] for answer in created]
    await connection.execute(
        "UPDATE task.tasks SET status = 'processing', version = 1, claimed_by = 'w', started_at = now(), "
        "heartbeat_at = now(), progress_at = now(), attempts = $2, max_attempts = 10000 "
        "WHERE id = ANY($1::uuid[])",
        ids, attempts,
    )  # fmt: skip
    endings = [Ending(task_id, 1, End.FAILED, retryable=True) for task_id in ids]
    result = await end_runs(connection, endings, Backoff(1, 600))
    now = await connection.fetchval("SELECT now()")  # of the transaction that the test is
    pauses = [(task.due_at - now).total_seconds() for task in result.ended if task.due_at is not None]
    assert len(pauses) == 64
    assert 0 < min(pauses) < ceiling / 2 < max(pauses) <= ceiling


async def _seed(connection: Connection, belief: str) -> None:
    """Fill the table; the planner believes what it found before, or that most of it runs, or hardly any."""
    running = {"most": 29, "few": 1}.get(belief, 10)
    await connection.execute(f"""
        INSERT INTO task.tasks (id, type, max_attempts, content_sha256, claim_order, status, version,
            claimed_by, completed_at, started_at, heartbeat_at, progress_at)
        SELECT gen_random_uuid(), 'plan', 5, '', now(), s, 2, CASE WHEN s = 'processing' THEN 'w' END,
            CASE WHEN s = 'completed' THEN now() END, now(), now(), now()
        FROM generate_series(1, 3000) n,
            LATERAL (SELECT CASE WHEN n % 30 < {running} THEN 'processing'
            WHEN n % 2 = 0 THEN 'pending' ELSE 'completed' END AS s) x""")
    if belief != "found":
        await connection.execute("ANALYZE task.tasks")


BY_ID = {"pk_tasks", "tasks_pkey"}
RUNS = {"pk_task_runs", "task_runs_pkey"}
QUEUE = {"ix_tasks_fresh", "ix_tasks_returned"}
RUNNING = {"ix_tasks_running"}
# A run is found by its id, never by walking the index of running rows.
INDEXES = {
    "CLAIM": QUEUE | BY_ID,
    "END_GIVEN": BY_ID,
    "END_AND_CLAIM": QUEUE | BY_ID,
    "BEAT": BY_ID,
    "BEAT_AGAIN": BY_ID,
    "STANDING": BY_ID,
    "COUNT_ABSENT": RUNNING | BY_ID,
    "EXISTING": BY_ID | {"uq_tasks_request_id"},
    "INSERT": QUEUE,
    "RUN_RECORDS": BY_ID | RUNS,
    "COUNT_LATE": RUNS,
    "MAKE_DUE": BY_ID | {"ix_tasks_delayed"},
    "HAS_WORK": QUEUE,
    "DELETE_OLD": BY_ID | RUNS | {"ix_tasks_completed"},
    "END_LOST": RUNNING | BY_ID,
    "LEFT_BEHIND": RUNNING,
    "END_OLDER": RUNNING | BY_ID,
    "SHARES": QUEUE,
}
_ARRAYS_OF_NINE = "ARRAY[]::uuid[], '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'"


@pytest.mark.parametrize("belief", ["found", "most", "few"])
@pytest.mark.parametrize(
    ("name", "types", "values"),
    [
        ("CLAIM", "text, int8, timestamptz, text[], bool", "'plan', 5, '-infinity', ARRAY['w'], false"),
        (
            "END_GIVEN",
            "uuid[], int8[], text[], int2[], bytea[], text[], bool[], float8[], text[], float8, float8",
            f"{_ARRAYS_OF_NINE}, 1, 2",
        ),
        (
            "END_AND_CLAIM",
            "uuid[], int8[], text[], int2[], bytea[], text[], bool[], float8[], text[], float8, float8, "
            "text, int8, timestamptz, text[], bool",
            f"{_ARRAYS_OF_NINE}, 1, 2, 'plan', 5, '-infinity', ARRAY['w'], false",
        ),
        ("BEAT", "uuid[], int8[], int2[]", "'{}', '{}', '{}'"),
        ("BEAT_AGAIN", "uuid[], int8[], int2[]", "'{}', '{}', '{}'"),
        ("STANDING", "uuid[], int8[]", "'{}', '{}'"),
        ("COUNT_ABSENT", "text[], uuid[], int8[], float8", "ARRAY['w'], '{}', '{}', 10"),
        ("EXISTING", "uuid[], text[]", "'{}', '{}'"),
        (
            "INSERT",
            "uuid[], text[], text[], int4[], bytea[], bytea[], text[], text[], text[], int4[], "
            "timestamptz[], text[], text[], timestamptz[]",
            "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'",
        ),
        ("RUN_RECORDS", "uuid[], int8[]", "'{}', '{}'"),
        ("COUNT_LATE", "uuid[], int8[]", "'{}', '{}'"),
        ("MAKE_DUE", "int8", "5"),
        ("HAS_WORK", "text[]", "ARRAY['plan']"),
        ("DELETE_OLD", "float8, int8", "90, 5"),
        (
            "END_LOST",
            "text[], float8[], float8[], float8, float8, int8, text[]",
            "'{}', '{}', '{}', 60, 60, 5, '{}'",
        ),
        ("LEFT_BEHIND", "text[], uuid[], int8[]", "ARRAY['w'], '{}', '{}'"),
        ("END_OLDER", "text, float8, int8", "'plan', 60, 5"),
        ("SHARES", "text[], int8, timestamptz[]", "ARRAY['plan'], 5, ARRAY['-infinity'::timestamptz]"),
    ],
)
async def test_no_hot_statement_walks_the_table_or_an_index_it_does_not_name(
    connection: Connection, name: str, types: str, values: str, belief: str
) -> None:
    await _seed(connection, belief)
    await connection.execute(f"PREPARE hot({types}) AS {_statement(name)}")
    plan = json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE hot({values})"))
    scans = list(_scans(plan[0]["Plan"]))
    assert scans
    assert all(
        scan["Node Type"] in {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"} for scan in scans
    ), scans
    walked = [scan for scan in scans if _walks(scan)]
    assert not walked, walked
    used = _indexes(plan[0]["Plan"]) & await _indexes_of_tasks(connection)
    assert used <= INDEXES[name], used - INDEXES[name]


def _statement(name: str) -> str:
    modules = (
        statements, statements_claim, statements_create, statements_end, statements_queue, statements_work,
    )  # fmt: skip
    found: str = next(getattr(module, name) for module in modules if hasattr(module, name))
    return found


def _scans(node: dict[str, Any]) -> list[dict[str, Any]]:
    found = (
        [node] if node.get("Relation Name") in {"tasks", "task_runs"} and "Scan" in node["Node Type"] else []
    )
    for child in node.get("Plans", []):
        found += _scans(child)
    return found


def _walks(scan: dict[str, Any]) -> bool:
    """Say whether a scan reads a whole index that holds every row."""
    return "Index Cond" not in scan and scan.get("Index Name") in BY_ID | RUNS


def _indexes(node: dict[str, Any]) -> set[str]:
    found = {node["Index Name"]} if "Index Name" in node else set()
    return found.union(*(_indexes(child) for child in node.get("Plans", [])))


async def _indexes_of_tasks(connection: Connection) -> set[str]:
    rows = await connection.fetch(
        "SELECT indexname FROM pg_indexes WHERE schemaname = 'task' AND tablename IN ('tasks', 'task_runs')"
    )
    return {row["indexname"] for row in rows}


async def test_a_beat_touches_no_index(connection: Connection) -> None:
    names = await connection.fetch(
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'task' AND tablename = 'tasks'"
    )
    for column in ("heartbeat_at", "progress_at", "progress", "absent_beats"):
        assert not any(f"({column}" in row["indexdef"] or f" {column}," in row["indexdef"] for row in names)
