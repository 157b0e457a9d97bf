"""How a run can end, as values a handler returns and exceptions it raises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Completed:
    """The run reached its goal. `ext` is kept with the task: JSON values, at most 16 KiB serialised."""

    ext: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The run did not reach its goal; `retryable` puts the task back while attempts are left."""

    message: str
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Released:
    """The worker gives the task back without charging an attempt, at once or after a pause in seconds."""

    run_after_seconds: float | None = None


Outcome = Completed | Failed | Released


class TaskFailed(Exception):
    """Raised by a handler: the task itself is at fault, for example its input."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable


class Infrastructure(Exception):
    """Raised by a handler: a database, a store or a peer is out of reach; the task is not at fault.

    The task is given back uncharged, and the worker backs off (domain.md 2.4).
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
