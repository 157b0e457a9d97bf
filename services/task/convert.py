"""Between the wire and the rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from asyncpg.pgproto.pgproto import UUID
from frontrow.task.v1 import task_pb2, task_service_pb2, work_pb2
from google.protobuf import duration_pb2, struct_pb2, timestamp_pb2

from libs.common.errors import InvalidArgument
from libs.common.ids import uuid7
from libs.common.tracing import present_trace
from services.task.limits import TypeLimits
from services.task.repository_create import NewTask
from services.task.repository_end import Answer, Ending
from services.task.states import ERROR_CHARACTERS, End

STRUCT_BYTES = 16 * 1024
STRUCT_LEVELS = 30
"""How deep lists and objects may stand in one another.

Protobuf reads a hundred messages in one another, three a level, and an answer holds a payload deeper than its
creation did: at that bound no worker could read its claim, nor what else was claimed with it.
"""
# The tags of a list and of an object inside a Struct: with fewer of these bytes it can't be deeper.
_LIST, _OBJECT = b"\x32", b"\x2a"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = datetime.min.replace(tzinfo=UTC) + _MICROSECOND
_LAST = datetime.max.replace(tzinfo=UTC) - _MICROSECOND

STATUSES = {
    "pending": task_pb2.TASK_STATUS_PENDING,
    "processing": task_pb2.TASK_STATUS_PROCESSING,
    "completed": task_pb2.TASK_STATUS_COMPLETED,
    "failed": task_pb2.TASK_STATUS_FAILED,
    "cancelled": task_pb2.TASK_STATUS_CANCELLED,
}
STATUS_NAMES = {number: name for name, number in STATUSES.items()}

_OUTCOMES: dict[Answer, work_pb2.FinishOutcome.ValueType] = {
    "applied": work_pb2.FINISH_OUTCOME_APPLIED,
    "requeued": work_pb2.FINISH_OUTCOME_REQUEUED,
    "failed": work_pb2.FINISH_OUTCOME_FAILED,
    "cancelled": work_pb2.FINISH_OUTCOME_CANCELLED,
    "lease_lost": work_pb2.FINISH_OUTCOME_LEASE_LOST,
    "not_found": work_pb2.FINISH_OUTCOME_NOT_FOUND,
}


class Row(Protocol):
    """A task's row as a driver gives it."""

    def __getitem__(self, key: str, /) -> Any:
        """Return a column's value."""


def stamp(moment: datetime | None) -> timestamp_pb2.Timestamp | None:
    """Return a time for the wire; None stays None, which leaves a field unset."""
    if moment is None:
        return None
    microseconds = (moment - _EPOCH) // _MICROSECOND
    return timestamp_pb2.Timestamp(seconds=microseconds // 1_000_000, nanos=microseconds % 1_000_000 * 1_000)


def stamp_after(moment: datetime, length_seconds: float) -> timestamp_pb2.Timestamp | None:
    """Return the time so many seconds after `moment`, for the wire."""
    return stamp(moment + timedelta(seconds=length_seconds))


def seconds(duration: duration_pb2.Duration) -> float:
    """Return a duration in seconds."""
    return duration.seconds + duration.nanos / 1e9


def duration(length_seconds: float) -> duration_pb2.Duration:
    """Return a duration for the wire."""
    microseconds = round(length_seconds * 1_000_000)
    return duration_pb2.Duration(seconds=microseconds // 1_000_000, nanos=microseconds % 1_000_000 * 1_000)


def moment(timestamp: timestamp_pb2.Timestamp, field: str) -> datetime:
    """Return a time of the wire. Raises InvalidArgument naming `field` outside of years 1 to 9999.

    The very first and the very last of them are moved by a microsecond: the driver takes those for infinity,
    which can't be read back or reckoned with.
    """
    try:
        return min(max(timestamp.ToDatetime(tzinfo=UTC), _FIRST), _LAST)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument.of_field(field, "must lie within the years 1 to 9999") from error


def task_message(row: Row, limits: TypeLimits, *, with_payload: bool) -> task_pb2.Task:
    """Return a row as the wire's task; `payload` and `ext` only on demand (domain.md 1.14)."""
    task = task_pb2.Task(
        id=str(row["id"]),
        type=row["type"],
        status=STATUSES[row["status"]],
        version=row["version"],
        attempt=row["attempts"],
        max_attempts=row["max_attempts"],
        priority=row["priority"],
        progress=row["progress"],
        error_message=row["error_message"],
        status_reason=row["status_reason"],
        subject=row["subject"],
        live_material_name=row["live_material_name"],
        video_project_name=row["video_project_name"],
        draft_url=row["draft_url"],
        video_url=row["video_url"],
        clips_url=row["clips_url"],
        claimed_by=row["claimed_by"] or "",
        trace_parent=row["trace_parent"],
        create_time=stamp(row["created_at"]),
        queue_time=stamp(row["queued_at"]),
        run_after=stamp(row["run_after"]),
        start_time=stamp(row["started_at"]),
        heartbeat_time=stamp(row["heartbeat_at"]),
        progress_time=stamp(row["progress_at"]),
        cancel_request_time=stamp(row["cancel_requested_at"]),
        complete_time=stamp(row["completed_at"]),
        lease_expire_time=_lease_end(row, limits),
    )
    if with_payload:
        if row["payload"]:
            task.payload.MergeFromString(row["payload"])
        if row["ext"]:
            task.ext.MergeFromString(row["ext"])
    return task


def _lease_end(row: Row, limits: TypeLimits) -> timestamp_pb2.Timestamp | None:
    if row["claimed_by"] is None:
        return None
    return stamp_after(row["heartbeat_at"], limits.lease_seconds(row["type"]))


def claimed_messages(rows: Iterable[Row], limits: TypeLimits) -> list[task_pb2.Task]:
    """Return tasks just claimed: what their worker needs, with the payload. The hot path of the queue."""
    began: datetime | None = None
    start: timestamp_pb2.Timestamp | None = None
    leases: dict[str, timestamp_pb2.Timestamp | None] = {}
    tasks = []
    for row in rows:
        if row["started_at"] != began:  # tasks of one claim begin at one time
            began = row["started_at"]
            start = stamp(began)
            leases.clear()
        task_type = row["type"]
        if task_type not in leases:
            leases[task_type] = stamp_after(row["started_at"], limits.lease_seconds(task_type))
        tasks.append(_claimed_message(row, start, leases[task_type]))
    return tasks


def _claimed_message(
    row: Row, start: timestamp_pb2.Timestamp | None, lease: timestamp_pb2.Timestamp | None
) -> task_pb2.Task:
    created, queued = row["created_at"], row["queued_at"]
    create = stamp(created)
    task = task_pb2.Task(
        id=str(row["id"]),
        type=row["type"],
        status=task_pb2.TASK_STATUS_PROCESSING,
        version=row["version"],
        attempt=row["attempts"],
        max_attempts=row["max_attempts"],
        priority=row["priority"],
        subject=row["subject"],
        live_material_name=row["live_material_name"],
        video_project_name=row["video_project_name"],
        draft_url=row["draft_url"],
        video_url=row["video_url"],
        clips_url=row["clips_url"],
        claimed_by=row["claimed_by"],
        trace_parent=row["trace_parent"],
        create_time=create,
        queue_time=create if queued == created else stamp(queued),
        run_after=stamp(row["run_after"]),
        start_time=start,
        lease_expire_time=lease,
    )
    if row["payload"]:
        task.payload.MergeFromString(row["payload"])
    return task


def new_task(
    request: task_service_pb2.CreateTaskRequest,
    limits: TypeLimits,
    *,
    path: str = "",
    trace_parent: str | None = None,
) -> NewTask:
    """Return what a creation asks for; `path` is put before the field's name in an error.

    `trace_parent` is the trace that led to the task, None for that of the present call.

    Raises:
        InvalidArgument: the payload is too large.
    """
    run_after = moment(request.run_after, f"{path}run_after") if request.HasField("run_after") else None
    content = task_service_pb2.CreateTaskRequest()
    content.CopyFrom(request)
    content.task_id = content.request_id = ""
    return NewTask(
        task_id=UUID(request.task_id) if request.task_id else uuid7(),
        chosen_id=bool(request.task_id),
        request_id=request.request_id,
        type=request.type,
        priority=request.priority,
        payload=struct_bytes(request.payload, f"{path}payload"),
        content_sha256=hashlib.sha256(content.SerializeToString(deterministic=True)).digest(),
        subject=request.subject,
        live_material_name=request.live_material_name,
        video_project_name=request.video_project_name,
        max_attempts=request.max_attempts or limits.max_attempts(request.type),
        run_after=run_after,
        trace_parent=present_trace() if trace_parent is None else trace_parent,
    )


def ending(item: work_pb2.FinishItem, path: str) -> Ending:
    """Return how a run ends. Raises InvalidArgument naming the field at `path` whose value is too large."""
    task_id = UUID(item.task_id)
    if item.HasField("completed"):
        done = item.completed
        return Ending(
            task_id,
            item.version,
            End.COMPLETED,
            progress=done.progress if done.HasField("progress") else None,
            ext=struct_bytes(done.ext, f"{path}.completed.ext") if done.HasField("ext") else b"",
        )
    if item.HasField("failed"):
        failed = item.failed
        return Ending(
            task_id,
            item.version,
            End.FAILED,
            progress=failed.progress if failed.HasField("progress") else None,
            message=failed.message[:ERROR_CHARACTERS],
            retryable=failed.retryable,
            reason="RETRY",
        )
    pause = seconds(item.released.run_after) if item.released.HasField("run_after") else 0.0
    return Ending(task_id, item.version, End.RELEASED, pause_seconds=pause, reason="RELEASED")


def finish_result(item: work_pb2.FinishItem, answer: Answer) -> work_pb2.FinishResult:
    """Return the answer for one item."""
    return work_pb2.FinishResult(task_id=item.task_id, outcome=_OUTCOMES[answer])


def struct_bytes(struct: struct_pb2.Struct, field: str) -> bytes:
    """Return a Struct's bytes as they are stored, without fields that a Struct doesn't have.

    Raises:
        InvalidArgument: they are more than 16 KiB, or lists and objects are nested more than 30 deep.
    """
    struct.DiscardUnknownFields()
    data = struct.SerializeToString(deterministic=True)
    if len(data) > STRUCT_BYTES:
        raise InvalidArgument.of_field(
            field, f"is {len(data)} bytes serialised; at most {STRUCT_BYTES} are kept, put the rest elsewhere"
        )
    if data.count(_LIST) + data.count(_OBJECT) > STRUCT_LEVELS and _levels(struct) > STRUCT_LEVELS:
        raise InvalidArgument.of_field(
            field, f"has more than {STRUCT_LEVELS} lists and objects in one another; store it flatter"
        )
    return data


def _levels(struct: struct_pb2.Struct) -> int:
    """Return how many lists and objects stand in one another, the Struct itself not counted."""
    deepest = 0
    left = [(value, 0) for value in struct.fields.values()]
    while left:
        value, level = left.pop()
        deepest = max(deepest, level)
        if value.HasField("list_value"):
            left += [(item, level + 1) for item in value.list_value.values]
        elif value.HasField("struct_value"):
            left += [(item, level + 1) for item in value.struct_value.fields.values()]
    return deepest
