"""Queues, workers and runs: from rows to the wire."""

from __future__ import annotations

from collections.abc import Sequence

from frontrow.task.v1 import queue_pb2

from services.task.convert import Row, duration, stamp, stamp_after
from services.task.explain import Kind
from services.task.limits import TypeLimits
from services.task.repository_queue import RATE_MINUTES, Policy

HINDRANCES: dict[Kind, queue_pb2.HindranceKind.ValueType] = {
    "due_later": queue_pb2.HINDRANCE_KIND_DUE_LATER,
    "paused": queue_pb2.HINDRANCE_KIND_PAUSED,
    "limit": queue_pb2.HINDRANCE_KIND_LIMIT,
    "no_worker": queue_pb2.HINDRANCE_KIND_NO_WORKER,
    "queued": queue_pb2.HINDRANCE_KIND_QUEUED,
}


def policy_message(policy: Policy) -> queue_pb2.QueuePolicy:
    """Return a policy for the wire; a lease or stall limit at its default stays absent."""
    return queue_pb2.QueuePolicy(
        paused=policy.paused,
        concurrency_limit=policy.concurrency_limit,
        lease=duration(policy.lease_seconds) if policy.lease_seconds else None,
        stall_limit=duration(policy.stall_seconds) if policy.stall_seconds else None,
        max_attempts=policy.max_attempts,
    )


def queue_message(row: Row) -> queue_pb2.Queue:
    """Return a queue for the wire."""
    age = row["oldest_age"]
    policy = Policy(
        row["paused"],
        row["concurrency_limit"],
        row["lease_seconds"],
        row["stall_seconds"],
        row["max_attempts"],
    )
    return queue_pb2.Queue(
        type=row["type"],
        policy=policy_message(policy),
        pending=int(row["pending"]),
        processing=int(row["processing"]),
        completed=int(row["completed"]),
        failed=int(row["failed"]),
        cancelled=int(row["cancelled"]),
        oldest_pending_time=stamp(row["oldest_queued_at"]),
        oldest_pending_age=duration(max(0.0, age.total_seconds())) if age is not None else None,
        created_per_minute=float(row["created"]) / RATE_MINUTES,
        ended_per_minute=float(row["ended"]) / RATE_MINUTES,
        workers=row["workers"],
    )


def run_message(row: Row) -> queue_pb2.TaskRun:
    """Return a run for the wire."""
    return queue_pb2.TaskRun(
        version=row["version"],
        worker_id=row["worker_id"],
        start_time=stamp(row["started_at"]),
        end_time=stamp(row["ended_at"]),
        ended_as=row["ended_as"],
        outcome=row["outcome"],
        reason=row["reason"],
        late_writes=row["late_writes"],
    )


def worker_message(row: Row, leases: Sequence[Row], limits: TypeLimits) -> queue_pb2.WorkerInfo:
    """Return a worker with the runs it holds for the wire."""
    return queue_pb2.WorkerInfo(
        worker_id=row["worker_id"],
        types=row["types"],
        first_seen_time=stamp(row["first_seen_at"]),
        last_seen_time=stamp(row["last_seen_at"]),
        leases=[
            queue_pb2.HeldLease(
                task_id=str(lease["id"]),
                type=lease["type"],
                version=lease["version"],
                progress=lease["progress"],
                lease_expire_time=stamp_after(
                    lease["heartbeat_at"], limits.lost_after_seconds(lease["type"])
                ),
            )
            for lease in leases
        ],
    )
