"""When a submission is tried again, and for how long; the same for both clients."""

from __future__ import annotations

import logging
import random
import time
import uuid
from typing import NamedTuple

import grpc
from frontrow.client.refusal import Refused

log = logging.getLogger(__name__)

DEADLINE_SECONDS = 60.0
ATTEMPT_SECONDS = 15.0

_FIRST_DELAY_SECONDS = 0.25
_LONGEST_DELAY_SECONDS = 10.0
_WORTH_ANOTHER_TRY = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,  # a server that stops, or has too many calls waiting
    }
)
# What gRPC says, in words of its own around it, to calls under way when this program closes their channel or
# forks.
_CLOSED_HERE = "Channel closed"


class Submission(NamedTuple):
    """What became of a submission."""

    job_id: str
    """The job to ask about."""
    accepted: bool
    """Whether this submission made the job; False when its request id was known."""
    request_id: str
    """The request id it went under: give it again to be sure that nothing is submitted twice."""


def fresh_request_id() -> str:
    """Return a request id for a caller who has none."""
    return f"auto-{uuid.uuid4().hex}"


class Patience:
    """How much longer one submission is tried."""

    def __init__(self, deadline_seconds: float) -> None:
        self._ends = time.monotonic() + deadline_seconds
        self._failures = 0

    def attempt_seconds(self) -> float:
        """Return the timeout of the next attempt."""
        return max(0.05, min(ATTEMPT_SECONDS, self._ends - time.monotonic()))

    def pause_after(self, refused: Refused) -> float:
        """Return the seconds to wait before the next attempt, and log why it is needed.

        Raises:
            Refused: another attempt wouldn't help, or there is no time left for one.
        """
        closed_here = refused.code is grpc.StatusCode.CANCELLED and _CLOSED_HERE in refused.message
        if refused.code not in _WORTH_ANOTHER_TRY or closed_here:
            raise refused
        self._failures += 1
        doubled = min(_LONGEST_DELAY_SECONDS, _FIRST_DELAY_SECONDS * 2.0 ** min(self._failures - 1, 20))
        pause = doubled * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
        if refused.retry_after_seconds is not None:
            pause = max(pause, refused.retry_after_seconds)
        left = self._ends - time.monotonic()
        if pause >= left:
            raise refused
        log.warning("the submission is tried again in %.1f s, for %.0f s more: %s", pause, left, refused)
        return pause
