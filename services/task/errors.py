"""What the task context refuses, one class a fact."""

from __future__ import annotations

from libs.common.errors import DomainError, Kind


class TaskNotFound(DomainError):
    """No task has this id; perhaps it finished long ago and was deleted."""

    kind = Kind.NOT_FOUND
    reason = "TASK_NOT_FOUND"

    @classmethod
    def of(cls, task_id: str) -> TaskNotFound:
        """Refuse an id."""
        return cls(f"there is no task {task_id}", task_id=task_id)


class RequestIdReused(DomainError):
    """The id was used before for a task with other content (domain.md 5)."""

    kind = Kind.ALREADY_EXISTS
    reason = "REQUEST_ID_REUSED"

    @classmethod
    def of(cls, existing_id: str) -> RequestIdReused:
        """Refuse a creation whose ids belong to another task."""
        return cls(
            f"the task_id or request_id belongs to task {existing_id}, which was created with other content; "
            "send the same content again, or take a new id",
            task_id=existing_id,
        )


class LeaseLost(DomainError):
    """The run that writes is no longer the live one (domain.md 1.3)."""

    kind = Kind.ABORTED
    reason = "LEASE_LOST"

    @classmethod
    def of(cls, task_id: str, version: int) -> LeaseLost:
        """Refuse a late write."""
        return cls(
            f"run {version} of task {task_id} is over; stop working on it, nothing was written",
            task_id=task_id,
            version=str(version),
        )


class TaskNotCancellable(DomainError):
    """The task has ended already."""

    kind = Kind.FAILED_PRECONDITION
    reason = "TASK_NOT_CANCELLABLE"

    @classmethod
    def of(cls, task_id: str, status: str) -> TaskNotCancellable:
        """Refuse to cancel a task that is over."""
        return cls(
            f"task {task_id} is {status}; only a pending or processing task can be cancelled",
            task_id=task_id,
            status=status,
        )


class TaskNotRetryable(DomainError):
    """The task neither failed nor was cancelled."""

    kind = Kind.FAILED_PRECONDITION
    reason = "TASK_NOT_RETRYABLE"

    @classmethod
    def of(cls, task_id: str, status: str) -> TaskNotRetryable:
        """Refuse to retry."""
        return cls(
            f"task {task_id} is {status}; only a failed or cancelled task can be retried",
            task_id=task_id,
            status=status,
        )


class QueueBusy(DomainError):
    """A first policy of a type waits for a transaction that can't see it."""

    kind = Kind.UNAVAILABLE
    reason = "QUEUE_BUSY"


class ServerStopping(DomainError):
    """This server stops; another one, or this one started again, takes the same call."""

    kind = Kind.UNAVAILABLE
    reason = "SERVER_STOPPING"
