"""Know until when the present call may run, on the server side, and hand that limit on to nested calls."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

NESTED_MARGIN_SECONDS = 0.1
"""How much earlier a nested call ends than its caller, so that the caller can still answer for it."""

DEFAULT_CAP_SECONDS = 30.0
"""The limit of a unary call whose caller named none, on both sides."""

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


def remaining_seconds() -> float | None:
    """Return the seconds left for the present call, 0 when it is over, None when nothing limits it."""
    deadline = _deadline.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def nested_timeout(timeout_seconds: float | None, *, cap_seconds: float | None) -> float | None:
    """Return the timeout of an outgoing call: the caller's own or the cap, never past the present deadline.

    `timeout_seconds` is what the call site asked for (None: the cap), `cap_seconds` None means no cap
    (a stream). The result is None only when nothing at all limits the call.
    """
    wanted = cap_seconds if timeout_seconds is None else timeout_seconds
    left = remaining_seconds()
    if left is None:
        return wanted
    left = max(0.0, left - NESTED_MARGIN_SECONDS)
    return left if wanted is None else min(wanted, left)


@contextmanager
def limited_to(seconds: float | None) -> Iterator[None]:
    """Make `seconds` from now the present deadline inside the block; None lifts it.

    A task started by a handler inherits the handler's deadline: wrap what outlives the call in
    `limited_to(None)`.
    """
    token = _deadline.set(None if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)
