"""Tell what went wrong in terms of the domain, never in terms of a transport.

One subclass of `DomainError` stands for one documented fact. It carries the kind (how a caller reacts),
the reason (a stable name, part of the contract) and metadata. `libs.common.statuses` turns it into a
`google.rpc.Status`; nothing below a servicer knows a status code.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class Kind(enum.Enum):
    """Say how a caller should react; the names are those of the status codes they become."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    ABORTED = "ABORTED"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    UNAVAILABLE = "UNAVAILABLE"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    DATA_LOSS = "DATA_LOSS"


@dataclass(frozen=True)
class FieldViolation:
    """Name a request field at fault and say what would be right.

    `field` is a path from the request message: `images[3].url`, `payload.fields["a"].string_value`.
    """

    field: str
    description: str


class DomainError(Exception):
    """Be the parent of every documented refusal.

    A subclass sets `kind` and `reason` (UPPER_SNAKE, never changed once released). `message` is written for
    the person who reads it: what was wrong and what to do. `retry_delay_seconds` is the wait after which the
    same call may succeed; None says nothing about it. `metadata` becomes the ErrorInfo's metadata; keys are
    lower snake case, values are text, and no secret belongs there.
    """

    kind: ClassVar[Kind]
    reason: ClassVar[str]

    def __init__(
        self,
        message: str,
        *,
        violations: Sequence[FieldViolation] = (),
        retry_delay_seconds: float | None = None,
        **metadata: str,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.violations = tuple(violations)
        self.retry_delay_seconds = retry_delay_seconds
        self.metadata = metadata


class InvalidArgument(DomainError):
    """Refuse a request whose content is wrong whatever the state of the system is."""

    kind = Kind.INVALID_ARGUMENT
    reason = "INVALID_ARGUMENT"

    @classmethod
    def of_field(cls, field: str, description: str) -> InvalidArgument:
        """Refuse one field: the message and the single violation say the same."""
        return cls(f"{field}: {description}", violations=[FieldViolation(field, description)])


class DeadlineExceeded(DomainError):
    """Give up because the call's time is over; the caller can't tell whether anything was done."""

    kind = Kind.DEADLINE_EXCEEDED
    reason = "DEADLINE_EXCEEDED"


class DatabaseUnavailable(DomainError):
    """Report that the database can't serve now; nothing was changed and the same call may succeed soon."""

    kind = Kind.UNAVAILABLE
    reason = "DATABASE_UNAVAILABLE"


class ObjectStoreUnavailable(DomainError):
    """Report that the object store can't be reached or has no room; the same call may succeed soon."""

    kind = Kind.UNAVAILABLE
    reason = "STORE_UNAVAILABLE"


class PeerUnavailable(DomainError):
    """Report that a service this one depends on can't be reached now; the same call may succeed soon."""

    kind = Kind.UNAVAILABLE
    reason = "PEER_UNAVAILABLE"
