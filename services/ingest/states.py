"""States of a job and the pure decisions about them; the repository's WHERE clauses enforce them again."""

from __future__ import annotations

import enum
import re
from typing import Protocol
from uuid import UUID

MAX_ERROR_CHARACTERS = 4000
TASK_TYPE = "ingest"


class JobStatus(enum.StrEnum):
    """Where a job stands (domain.md 3.2)."""

    PENDING = "pending"
    PROCESSING = "processing"
    DONE = "done"
    FAILED = "failed"


class DoneReason(enum.StrEnum):
    """How a job ended well (domain.md 3.9)."""

    CREATED = "created"
    SOURCE_DUPLICATE = "source_duplicate"
    SOURCE_CONFLICT = "source_conflict"
    ENTITY_DUPLICATE = "entity_duplicate"


# A failed job is begun again when a person retried its task; a done one only under a new task.
TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.PENDING: frozenset({JobStatus.PENDING, JobStatus.PROCESSING, JobStatus.FAILED}),
    JobStatus.PROCESSING: frozenset(
        {JobStatus.PROCESSING, JobStatus.PENDING, JobStatus.DONE, JobStatus.FAILED}
    ),
    JobStatus.FAILED: frozenset({JobStatus.PENDING, JobStatus.PROCESSING}),
    JobStatus.DONE: frozenset({JobStatus.PENDING}),
}

BEGINNABLE = frozenset({JobStatus.PENDING, JobStatus.PROCESSING, JobStatus.FAILED})
FOLLOWED = frozenset({JobStatus.PENDING, JobStatus.PROCESSING})


class Begin(enum.Enum):
    """What a worker's BeginJob amounts to."""

    BEGIN = enum.auto()
    REPEAT = enum.auto()
    ALREADY_FINISHED = enum.auto()
    SUPERSEDED = enum.auto()
    LEASE_LOST = enum.auto()


class Owner(Protocol):
    """The columns of a job that decide on a begin."""

    status: str
    task_id: UUID
    seen_task_version: int


def decide_begin(job: Owner, task_id: UUID, task_version: int) -> Begin:
    """Decide on BeginJob(task_id, task_version) (domain.md 2.1, 3.2)."""
    if job.task_id != task_id:
        return Begin.SUPERSEDED
    if job.status == JobStatus.DONE:
        return Begin.ALREADY_FINISHED
    if task_version > job.seen_task_version:
        return Begin.BEGIN
    if task_version == job.seen_task_version and job.status == JobStatus.PROCESSING:
        return Begin.REPEAT
    return Begin.LEASE_LOST


_LED_BY_A_REASON = re.compile(r"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+): (?=\S)")


def failure_of(reason: str, message: str) -> tuple[str, str]:
    """Return the reason and the sentence of a job whose task ended badly.

    FAILED says of a task no more than its status does: the reason that leads its message counts, and without
    one it is that the last of its tries failed, too.
    """
    if reason != "FAILED":
        return reason, message
    led = _LED_BY_A_REASON.match(message)
    return (led[1], message[led.end() :]) if led else ("TRIES_USED_UP", message)


def cut_message(message: str) -> str:
    """Cut an error message to what a row keeps, on a character boundary; NUL can't be stored."""
    return message.replace("\x00", "\ufffd")[:MAX_ERROR_CHARACTERS]
