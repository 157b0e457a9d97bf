"""Run one handler to its outcome, and put the outcome into words of the wire."""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Awaitable, Callable

from frontrow.task.v1 import work_pb2
from frontrow.worker.outcomes import Completed, Failed, Infrastructure, Outcome, Released, TaskFailed
from frontrow.worker.run import Run
from frontrow.worker.tracing import Spans
from google.protobuf import struct_pb2

_log = logging.getLogger(__name__)

Handler = Callable[[Run], Awaitable[Outcome]]
MESSAGE_CHARACTERS = 4_000


class InfrastructureDown(Exception):
    """The handler said that its surroundings are down."""


async def outcome_of(handler: Handler, run: Run, spans: Spans, *, timeout_seconds: float | None) -> Outcome:
    """Run `handler` and return how the run ended; only cancellation and InfrastructureDown pass through.

    A handler that runs longer than `timeout_seconds` (None: no limit) fails, retryable, and so does one that
    returns no outcome. The run is a span of the trace in which its task was created.
    """
    with spans.around(run) as span:
        outcome = await _outcome_of(handler, run, timeout_seconds)
        span.ended(outcome)
        return outcome


async def _outcome_of(handler: Handler, run: Run, timeout_seconds: float | None) -> Outcome:
    limit: asyncio.Timeout | None = None
    try:
        if timeout_seconds is None:
            outcome = await handler(run)
        else:
            async with asyncio.timeout(timeout_seconds) as limit:
                outcome = await handler(run)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # By nobody who may: what it awaited was. Given back uncharged, it would come again and again at once.
        return Failed("the handler was cancelled from inside", retryable=True)
    except TaskFailed as failure:
        return Failed(failure.message, failure.retryable)
    except Infrastructure as failure:
        _log.warning("worker.infrastructure task_id=%s: %s", run.task_id, failure.message)
        raise InfrastructureDown from failure
    except Exception as error:  # noqa: BLE001 - a handler's defect must not end the worker
        if isinstance(error, TimeoutError) and limit is not None and limit.expired():
            return Failed(
                f"the run took longer than {timeout_seconds:g} seconds and was stopped", retryable=True
            )
        _log.warning("worker.handler_raised task_id=%s", run.task_id, exc_info=True)
        return Failed(f"{type(error).__name__}: {error}"[:MESSAGE_CHARACTERS], retryable=True)
    if isinstance(outcome, Completed | Failed | Released):
        return outcome
    return Failed(f"the handler returned a {type(outcome).__name__}, which is no outcome", retryable=True)


def finish_item(run: Run, outcome: Outcome) -> work_pb2.FinishItem:
    """Return the item that ends `run`; a result that is no JSON object becomes a failure that says so."""
    item = work_pb2.FinishItem(task_id=run.task_id, version=run.version)
    if isinstance(outcome, Completed):
        item.completed.SetInParent()
        if outcome.ext:
            ext = struct_pb2.Struct()
            try:
                ext.update(dict(outcome.ext))
            except (ValueError, TypeError, UnicodeError) as error:
                return finish_item(run, Failed(f"the handler's result is not JSON: {error}"))
            item.completed.ext.CopyFrom(ext)
    elif isinstance(outcome, Failed):
        item.failed.message = clean(outcome.message)
        item.failed.retryable = outcome.retryable
        if run.percent:
            item.failed.progress = run.percent
    else:
        item.released.SetInParent()
        if outcome.run_after_seconds:
            item.released.run_after.FromTimedelta(datetime.timedelta(seconds=outcome.run_after_seconds))
    return item


def clean(message: str) -> str:
    """Return an error text that can always be sent: no NUL, no lone surrogates, at most 4,000 characters."""
    text = message.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return text.encode("utf-8", "replace").decode("utf-8")[:MESSAGE_CHARACTERS]
