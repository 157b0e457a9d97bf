"""What must be true once a campaign is over: every end explained, nothing left running, nothing grown."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import grpc.aio
from frontrow.ingest.v1 import ingest_service_pb2
from frontrow.task.v1 import task_service_pb2

from tests.soak.system.fleet import Sample, SystemFleet

# What grows while a program warms up: connections, compiled rules, models.
WARM_UP_SECONDS = 20.0
GROWTH, GROWTH_BYTES = 1.25, 30_000_000
IDLE_SECONDS, IDLE_SHARE = 4.0, 0.05

_OPEN = """
SELECT (SELECT count(*) FROM task.tasks WHERE completed_at IS NULL)
    + (SELECT count(*) FROM ingest.jobs WHERE status IN ('pending', 'processing'))
    + (SELECT count(*) FROM asr.live_materials WHERE asr_status IN ('pending', 'processing'))
    + (SELECT count(*) FROM asr.video_projects WHERE status IN ('pending', 'processing'))
    + (SELECT count(*) FROM asr.editing_drafts WHERE draft_status IN ('pending', 'processing'))
    + (SELECT count(*) FROM ingest.outbox) + (SELECT count(*) FROM asr.outbox)
"""
_BUSY = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND backend_type = 'client backend' AND state <> 'idle'
"""


async def nothing_open(fleet: SystemFleet) -> bool:
    """Tell whether every task, job, recording, project and message has come to its end."""
    try:
        connection = await asyncpg.connect(fleet.postgres.direct_url)
        left = await connection.fetchval(_OPEN)
        await connection.close()
    except (OSError, asyncpg.PostgresError):
        return False
    return bool(left == 0)


async def idle(fleet: SystemFleet) -> bool:
    """Tell whether nothing is done any more: no statement, no lease, next to no processor time."""
    connection = await asyncpg.connect(fleet.postgres.direct_url)
    busy = await connection.fetchval(_BUSY)
    await connection.close()
    listed = await fleet.tasks.ListWorkers(task_service_pb2.ListWorkersRequest(), timeout=10)
    leases = sum(len(worker.leases) for worker in listed.workers)
    before = _processor_seconds(fleet)
    await asyncio.sleep(IDLE_SECONDS)
    used = _processor_seconds(fleet) - before
    assert (busy, leases) == (0, 0), f"{busy} statements, {leases} leases"
    assert used <= IDLE_SHARE * IDLE_SECONDS * len(fleet.machines), f"{used} s of processor time while idle"
    return True


def _processor_seconds(fleet: SystemFleet) -> float:
    total = 0
    for machine in fleet.machines.values():
        assert machine.process is not None
        fields = Path(f"/proc/{machine.process.pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


async def check_explained(fleet: SystemFleet) -> Counter[str]:
    """Check that each skip and failure has a reason, and that asking why gives one; return the reasons."""
    connection = await asyncpg.connect(fleet.postgres.direct_url)
    jobs = await connection.fetch(
        "SELECT id, kind, source, source_url, done_reason, failure_reason FROM ingest.jobs"
    )
    failed = await connection.fetch(
        "SELECT id::text AS id, status_reason, error_message FROM task.tasks WHERE status <> 'completed'"
    )
    await connection.close()
    reasons: Counter[str] = Counter()
    for job in jobs:
        reason = job["done_reason"] or job["failure_reason"]
        assert reason, dict(job)
        reasons[reason] += 1
    for url in {job["source_url"] for job in jobs if job["done_reason"] != "created"}:
        await _check_source(fleet, url)
    for task in failed:
        assert task["status_reason"] or task["error_message"], dict(task)
        request = task_service_pb2.ExplainTaskRequest(task_id=task["id"])
        told = await fleet.tasks.ExplainTask(request, timeout=10)
        assert told.summary, told
        assert told.runs, told
    return reasons


async def _check_source(fleet: SystemFleet, url: str) -> None:
    request = ingest_service_pb2.ExplainSourceRequest(source="magazine", source_url=url)
    try:
        told = await fleet.ingest.ExplainSource(request, timeout=10)
    except grpc.aio.AioRpcError as error:
        raise AssertionError(f"{url} can't be explained: {error}") from error
    assert told.layers, told
    assert all(layer.explanation for layer in told.layers), told
    assert told.jobs, told


async def check_runs(fleet: SystemFleet) -> Counter[str]:
    """Check that no outage cost an attempt by a failure; return how runs ended."""
    connection = await asyncpg.connect(fleet.postgres.direct_url)
    rows = await connection.fetch("SELECT ended_as, outcome, reason FROM task.task_runs")
    await connection.close()
    burnt = [dict(row) for row in rows if (row["ended_as"], row["outcome"]) == ("failed", "requeued")]
    assert not burnt, f"an outage cost attempts: {burnt[:5]}"
    return Counter(f"{row['ended_as']} {row['reason']}".strip() for row in rows)


def check_memory(samples: Sequence[Sample]) -> dict[str, tuple[int, int]]:
    """Check that no program grew while it lived; return the most of each kind at first and at last, in MB.

    Of each kind the programs of the campaign's two halves are compared, once they were warm.
    """
    began: dict[tuple[str, int], float] = {}
    for sample in samples:
        began.setdefault((sample.name, sample.pid), sample.at)
    warm = [s for s in samples if s.at - began[s.name, s.pid] >= WARM_UP_SECONDS]
    middle = (samples[0].at + samples[-1].at) / 2
    most: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for sample in warm:
        half = most[sample.name.rpartition("-")[0] or sample.name]
        half[sample.at > middle] = max(half[sample.at > middle], sample.bytes)
    for name, (first, last) in most.items():
        assert not first or last <= first * GROWTH + GROWTH_BYTES, f"{name} grew from {first} to {last} bytes"
    return {name: (first // 1_000_000, last // 1_000_000) for name, (first, last) in sorted(most.items())}
