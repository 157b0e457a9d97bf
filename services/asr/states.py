"""States of a transcription and the pure decisions about them; SQL enforces them again."""

import enum
from typing import Protocol
from uuid import UUID


class AsrStatus(enum.StrEnum):
    """State of a material's transcription (domain.md 2)."""

    NONE = "none"
    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


# Begin: pending, processing (a newer version of the task) and failed (its task was retried) -> processing.
TRANSITIONS: dict[AsrStatus, frozenset[AsrStatus]] = {
    AsrStatus.NONE: frozenset({AsrStatus.PENDING}),
    AsrStatus.PENDING: frozenset({AsrStatus.PROCESSING, AsrStatus.PENDING, AsrStatus.FAILED}),
    AsrStatus.PROCESSING: frozenset(
        {AsrStatus.PROCESSING, AsrStatus.COMPLETED, AsrStatus.PENDING, AsrStatus.FAILED}
    ),
    AsrStatus.FAILED: frozenset({AsrStatus.PENDING, AsrStatus.PROCESSING}),
    AsrStatus.COMPLETED: frozenset({AsrStatus.PENDING}),
}

RESETTABLE = frozenset({AsrStatus.NONE, AsrStatus.FAILED, AsrStatus.COMPLETED})
CANCELLABLE = frozenset({AsrStatus.PENDING, AsrStatus.PROCESSING})

CANCELLED_REASON = "CANCELLED"
MAX_ERROR_CHARACTERS = 4000


class Begin(enum.Enum):
    """What a worker's begin amounts to."""

    BEGIN = enum.auto()
    REPEAT = enum.auto()
    ALREADY_COMPLETED = enum.auto()
    SUPERSEDED = enum.auto()
    LEASE_LOST = enum.auto()


class Owner(Protocol):
    """The columns of a material that decide on a begin."""

    asr_status: str
    asr_task_id: UUID | None
    seen_task_version: int


def decide_begin(owner: Owner, task_id: UUID, task_version: int) -> Begin:
    """Decide on BeginTranscription(task_id, task_version) (domain.md 2.1).

    A repeat of the begin that the run started with gives the same answer; a run that has ended meanwhile
    can't be begun again with the same version.
    """
    if owner.asr_task_id != task_id:
        return Begin.SUPERSEDED
    if owner.asr_status == AsrStatus.COMPLETED:
        return Begin.ALREADY_COMPLETED
    if task_version > owner.seen_task_version:
        return Begin.BEGIN
    if task_version == owner.seen_task_version and owner.asr_status == AsrStatus.PROCESSING:
        return Begin.REPEAT
    return Begin.LEASE_LOST


def cut_message(message: str) -> str:
    """Cut an error message to what a row keeps, on a character boundary; NUL can't be stored."""
    return message.replace("\x00", "\ufffd")[:MAX_ERROR_CHARACTERS]
