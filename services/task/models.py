"""Tables of the task schema."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

SCHEMA = "task"
metadata = MetaData(schema=SCHEMA)

FRESH = "status = 'pending' AND version = 0 AND priority = 0 AND run_after IS NULL"
"""Pending and never touched: in order of creation, so that a claim can skip what lies below a mark."""

RETURNED = (
    "status = 'pending' AND due_at IS NULL AND NOT (version = 0 AND priority = 0 AND run_after IS NULL)"
)
"""Pending after a run or a retry, with a priority, or fallen due: few rows, in no order of creation."""

DELAYED = "status = 'pending' AND due_at IS NOT NULL"
"""Pending and not to be claimed yet: kept out of the claim's indices until `due_at`."""

RUNNING = "status = 'processing'"

NAMED = "live_material_name <> '' OR video_project_name <> ''"
"""What a search by keywords can find: most tasks have neither name."""

# Updates of hot rows find room on their page; dead rows are taken away early.
_STORAGE = {
    "fillfactor": "70",
    "autovacuum_vacuum_scale_factor": "0.01",
    "autovacuum_analyze_scale_factor": "0.02",
}


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False, server_default=text("''"))


def _time(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True))


tasks = Table(
    "tasks",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("type", Text, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'pending'")),
    Column("version", BigInteger, nullable=False, server_default=text("0")),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("max_attempts", Integer, nullable=False),
    Column("priority", Integer, nullable=False, server_default=text("0")),
    Column("progress", SmallInteger, nullable=False, server_default=text("0")),
    # of a per cent, beyond `progress`: seen by nobody, but a rise of them is progress
    Column("progress_hundredths", SmallInteger, nullable=False, server_default=text("0")),
    # google.protobuf.Struct, serialised: the queue never looks inside
    Column("payload", LargeBinary, nullable=False, server_default=text("''")),
    Column("ext", LargeBinary, nullable=False, server_default=text("''")),
    _text("error_message"),
    _text("status_reason"),
    _text("subject"),
    _text("live_material_name"),
    _text("video_project_name"),
    _text("draft_url"),
    _text("video_url"),
    _text("clips_url"),
    _text("request_id"),
    # W3C trace context of the creation, so that a run can be seen with what caused it
    _text("trace_parent"),
    # what was asked for at the creation, to tell a repeat from a clash
    Column("content_sha256", LargeBinary, nullable=False),
    # set by the claim alone, cleared by everything that ends a run: the fence (domain.md 1.3)
    Column("claimed_by", Text),
    # who held the last claim; kept for the run's record
    _text("last_worker"),
    Column("absent_beats", SmallInteger, nullable=False, server_default=text("0")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("queued_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    # the one order of the queue: queued_at - priority * 60 s
    Column("claim_order", DateTime(timezone=True), nullable=False),
    _time("run_after"),
    # run_after while it lies ahead, NULL once the task may be claimed
    _time("due_at"),
    _time("started_at"),
    _time("heartbeat_at"),
    _time("progress_at"),
    _time("cancel_requested_at"),
    _time("completed_at"),
    CheckConstraint(
        "status IN ('pending', 'processing', 'completed', 'failed', 'cancelled')", name="ck_tasks_status"
    ),
    CheckConstraint("(status = 'processing') = (claimed_by IS NOT NULL)", name="ck_tasks_claimed"),
    CheckConstraint(
        "(status IN ('completed', 'failed', 'cancelled')) = (completed_at IS NOT NULL)",
        name="ck_tasks_completed",
    ),
    CheckConstraint("progress BETWEEN 0 AND 100", name="ck_tasks_progress"),
    CheckConstraint("version >= 0 AND attempts >= 0", name="ck_tasks_counts"),
    CheckConstraint("char_length(error_message) <= 4000", name="ck_tasks_error_message"),
    postgresql_with=_STORAGE,
)
Index("uq_tasks_request_id", tasks.c.request_id, unique=True, postgresql_where=text("request_id <> ''"))
Index("ix_tasks_fresh", tasks.c.type, tasks.c.claim_order, tasks.c.id, postgresql_where=text(FRESH))
Index("ix_tasks_returned", tasks.c.type, tasks.c.claim_order, tasks.c.id, postgresql_where=text(RETURNED))
Index("ix_tasks_delayed", tasks.c.due_at, tasks.c.type, postgresql_where=text(DELAYED))
# Few rows; no index names heartbeat_at or progress, so that beats are HOT updates.
Index("ix_tasks_running", tasks.c.claimed_by, postgresql_where=text(RUNNING))
Index("ix_tasks_created", tasks.c.created_at, tasks.c.id)
Index("ix_tasks_subject", tasks.c.subject, tasks.c.created_at, postgresql_where=text("subject <> ''"))
Index("ix_tasks_completed", tasks.c.completed_at, postgresql_where=text("completed_at IS NOT NULL"))

# For lists: what failed among many that didn't, what a word can find among what has no name. All others cost
# these indices nothing.
Index(
    "ix_tasks_unsuccessful",
    tasks.c.created_at,
    tasks.c.id,
    postgresql_where=text("status IN ('failed', 'cancelled')"),
)
Index("ix_tasks_named", tasks.c.created_at, tasks.c.id, postgresql_where=text(NAMED))

task_runs = Table(
    "task_runs",
    metadata,
    # written when the run ends; the live run is the task's row itself
    Column("task_id", Uuid, primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("worker_id", Text, nullable=False),
    Column("started_at", DateTime(timezone=True), nullable=False),
    Column("ended_at", DateTime(timezone=True), nullable=False),
    # what the worker said, 'lost' when it said nothing
    Column("ended_as", Text, nullable=False),
    # the answer it got: applied, requeued, failed, cancelled
    Column("outcome", Text, nullable=False),
    _text("reason"),
    Column("late_writes", Integer, nullable=False, server_default=text("0")),
    CheckConstraint("ended_as IN ('completed', 'failed', 'released', 'lost')", name="ck_task_runs_ended_as"),
    CheckConstraint("outcome IN ('applied', 'requeued', 'failed', 'cancelled')", name="ck_task_runs_outcome"),
)

_ZERO = text("0")


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default=_ZERO)


LEVELS = ("pending", "processing", "completed", "failed", "cancelled")
"""The statuses a queue counts its tasks by."""

queue_policies = Table(
    "queue_policies",
    metadata,
    Column("type", Text, primary_key=True),
    Column("paused", Boolean, nullable=False, server_default=text("false")),
    # 0 in the next four: no limit, or the default of the settings
    Column("concurrency_limit", Integer, nullable=False, server_default=_ZERO),
    Column("lease_seconds", Double, nullable=False, server_default=_ZERO),
    Column("stall_seconds", Double, nullable=False, server_default=_ZERO),
    Column("max_attempts", Integer, nullable=False, server_default=_ZERO),
    # the lease from before a shorter one, and until when a worker may still go by it
    Column("longer_lease_seconds", Double, nullable=False, server_default=_ZERO),
    Column("longer_lease_until", DateTime(timezone=True)),
    # runs of this type now, kept by every claim and every end in their own transactions
    Column("running", Integer, nullable=False, server_default=_ZERO),
    # false while a first policy waits for the claims under way that can't see it: `running` isn't true yet
    Column("counted", Boolean, nullable=False, server_default=text("true")),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    _text("updated_by"),
    CheckConstraint(
        "concurrency_limit >= 0 AND lease_seconds >= 0 AND stall_seconds >= 0 AND max_attempts >= 0",
        name="ck_queue_policies_bounds",
    ),
    # A claim writes here when a limit is set: keep it a HOT update.
    postgresql_with={"fillfactor": "50"},
)

# What each flush changed, appended; one row a type would be locked by every flush. Folded each second.
queue_deltas = Table(
    "queue_deltas",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("type", Text, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    *(_count(name) for name in (*LEVELS, "created", "ended")),
    postgresql_with={"autovacuum_vacuum_scale_factor": "0.01"},
)

queue_counts = Table(
    "queue_counts",
    metadata,
    Column("type", Text, primary_key=True),
    *(_count(name) for name in LEVELS),
    postgresql_with={"fillfactor": "50"},
)

# Tasks that entered the queue and that reached a final status, by the minute.
queue_minutes = Table(
    "queue_minutes",
    metadata,
    Column("type", Text, primary_key=True),
    Column("minute", DateTime(timezone=True), primary_key=True),
    _count("created"),
    _count("ended"),
    postgresql_with={"fillfactor": "50"},
)

workers = Table(
    "workers",
    metadata,
    Column("worker_id", Text, primary_key=True),
    Column("types", ARRAY(Text), nullable=False),
    Column("first_seen_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("last_seen_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    # Kept for a day: a server that heard of the worker before it left may only now come to write that down.
    Column("left_at", DateTime(timezone=True)),
)
Index("ix_workers_last_seen", workers.c.last_seen_at)
