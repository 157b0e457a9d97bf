"""What must be true after a campaign: drafts, jobs, runs, media rows and objects against the model."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import asyncpg

from libs.common.objects import ObjectStore
from tests.soak.ingest.model import NO_BRAND, Article, Plan

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
SKIPPED = {"source_duplicate", "source_conflict"}

_DRAFTS = """
SELECT d.source_url, d.job_id, array_agg(m.key ORDER BY i.position) AS keys,
    bool_and(m.state = 'live') AS live
FROM review.{table} d
    JOIN review.{table_of_images} i ON i.draft_id = d.id JOIN review.media m ON m.id = i.media_id
GROUP BY d.id
"""
_TABLES = {
    "brand_runway_drafts": "brand_runway_draft_images",
    "street_snap_drafts": "street_snap_draft_images",
}


async def check_drafts(connection: Connection, plan: Plan) -> dict[str, str]:
    """Check that the drafts are the model's, each once, images live; return the job of each by address."""
    found: dict[str, list[str]] = {}
    makers: dict[str, str] = {}
    for table, table_of_images in _TABLES.items():
        for row in await connection.fetch(_DRAFTS.format(table=table, table_of_images=table_of_images)):
            assert row["source_url"] not in found, f"two drafts of {row['source_url']}"
            assert row["live"], f"an image of {row['source_url']} isn't live"
            found[row["source_url"]] = row["keys"]
            makers[row["source_url"]] = row["job_id"]
    assert found == plan.drafts()
    return makers


async def check_jobs(
    connection: Connection, jobs: Mapping[str, Article], makers: Mapping[str, str]
) -> Counter[str]:
    """Check how each job ended; `jobs` are the submitted ones by id, `makers` the jobs that made drafts."""
    rows = {str(row["id"]): row for row in await connection.fetch("SELECT * FROM ingest.jobs")}
    assert set(rows) == set(jobs), "jobs were lost or made up"
    for job_id, article in jobs.items():
        row = rows[job_id]
        if article.good:
            made = makers[article.url] == job_id
            assert row["status"] == "done", dict(row)
            assert row["done_reason"] in ({"created"} if made else SKIPPED), dict(row)
        else:
            wanted = "UNKNOWN_BRAND" if article.brand == NO_BRAND else "IMAGE_REJECTED"
            assert (row["status"], row["failure_reason"]) == ("failed", wanted), dict(row)
            assert row["error_message"], "a failure says what was wrong"
    return Counter(row["done_reason"] or row["failure_reason"] for row in rows.values())


async def abandoned(connection: Connection) -> list[str]:
    """Return the jobs whose runs were killed so often that they were given up; each must really have been."""
    rows = await connection.fetch(
        "SELECT j.id::text AS job_id, count(r.*) FILTER (WHERE r.ended_as = 'lost' AND r.reason IN"
        " ('STALE', 'ABANDONED')) AS killed FROM ingest.jobs j"
        " LEFT JOIN task.task_runs r ON r.task_id = j.task_id WHERE j.failure_reason = 'ABANDONED' GROUP BY 1"
    )
    assert all(row["killed"] >= 3 for row in rows), [dict(row) for row in rows]
    return [row["job_id"] for row in rows]


async def check_runs(connection: Connection, workers_killed: int) -> Counter[str]:
    """Check that nothing but kills of workers cost attempts; return how runs ended."""
    rows = await connection.fetch("SELECT worker_id, ended_as, outcome, reason FROM task.task_runs")
    burnt = [dict(row) for row in rows if (row["ended_as"], row["outcome"]) == ("failed", "requeued")]
    assert not burnt, f"an outage cost attempts: {burnt[:5]}"
    silent = {row["worker_id"] for row in rows if row["ended_as"] == "lost" and row["reason"] != "REPLY_LOST"}
    assert len(silent) <= workers_killed, "a worker that lived counts as lost"
    return Counter(f"{row['ended_as']} {row['reason']}".strip() for row in rows)


async def check_media(connection: Connection, store: ObjectStore) -> int:
    """Check the bytes of every live row; return how many there are."""
    rows = await connection.fetch("SELECT * FROM review.media WHERE state = 'live'")
    for row in rows:
        body = await store.get_bytes(row["key"])
        assert len(body) == row["size_bytes"], row["key"]
        assert hashlib.sha256(body).hexdigest() == row["sha256"], row["key"]
    return len(rows)


async def check_objects(connection: Connection, store: ObjectStore, wanted: Iterable[str]) -> int:
    """Check after clean-ups that rows, objects and what drafts refer to are the same; return their number."""
    rows = await connection.fetch(
        "SELECT m.key, m.state, p.key AS parent"
        " FROM review.media m LEFT JOIN review.media p ON p.id = m.parent_id"
    )
    keys = {row["key"] for row in rows}
    objects = {key async for key in store.list("media")}
    assert all(row["state"] == "live" for row in rows)
    assert {row["key"] for row in rows if row["parent"] is None} == set(wanted)
    assert objects == keys, f"orphans {sorted(objects - keys)[:5]}, missing {sorted(keys - objects)[:5]}"
    thumbnails = defaultdict(int, Counter(row["parent"] for row in rows if row["parent"] is not None))
    assert all(thumbnails[key] == 1 for key in wanted), "each image has its one thumbnail"
    return len(objects)
