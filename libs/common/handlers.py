"""What handlers of tasks say of a failure, fit to be stored with the task and shown to people."""

from __future__ import annotations

import structlog
from frontrow.worker import Failed, Handler, Outcome, Run, TaskFailed

from libs.common.redaction import redacted

log = structlog.get_logger(__name__)


def without_secrets(handler: Handler) -> Handler:
    """Return the handler with every message of a failure redacted, whichever way it is told."""

    async def handle(run: Run) -> Outcome:
        try:
            outcome = await handler(run)
        except TaskFailed as failure:
            raise TaskFailed(redacted(failure.message), retryable=failure.retryable) from failure
        except Exception as error:  # what the worker makes of others it makes of their text
            told = f"{type(error).__name__}: {error}"
            if redacted(told) == told:
                raise
            log.warning("worker.handler_raised", task_id=run.task_id, exc_info=True)
            return Failed(redacted(told), retryable=True)
        return (
            Failed(redacted(outcome.message), outcome.retryable) if isinstance(outcome, Failed) else outcome
        )

    return handle
