"""Turn whatever a handler raises into what the client may know.

The step waits until the handler has left its own blocks (sessions closed, locks freed) and only then aborts
the call: an abort inside the handler would answer the client before the rollback.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import structlog
from google.rpc import status_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status

from libs.common import ids, statuses
from libs.common.errors import DomainError
from libs.common.interceptors import failures
from libs.common.interceptors.call import Serve, ServedCall, Step
from libs.common.telemetry import Telemetry

log = structlog.get_logger(__name__)

_CLOCK_MARGIN_SECONDS = 0.05
TELL_SECONDS = 60.0
"""How long a refusal may wait until the client takes it."""


def mapping(domain: str, telemetry: Telemetry) -> Step:
    """Return the step for a server whose ErrorInfo domain is `domain` (`frontrow.task`).

    What is refused is counted by `telemetry`.
    """

    def step(proceed: Serve) -> Serve:
        async def serve(call: ServedCall) -> Any:
            try:
                return await proceed(call)
            except grpc.aio.AbortError:
                call.code = call.context.code() or grpc.StatusCode.UNKNOWN
                raise
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling() > 0:
                    call.code = _code_of_cancellation(call)
                    raise  # gRPC's own: the client went away, its deadline passed, or the server stops
                await _abort(call, _internal(call, error))
            except grpc.aio.InternalError:
                # An answer couldn't be written: the client is gone, which gRPC says a moment later.
                call.code = _code_of_cancellation(call)
                raise asyncio.CancelledError from None
            except Exception as error:  # noqa: BLE001  # the outermost boundary: nothing may pass it unmapped
                refusal = failures.as_domain_error(error)
                if refusal is None:
                    await _abort(call, _internal(call, error))
                else:
                    telemetry.refused(call.method, refusal.reason)
                    _note(call, refusal, error)
                    await _abort(call, statuses.to_status(refusal, domain))

        return serve

    return step


def _code_of_cancellation(call: ServedCall) -> grpc.StatusCode:
    """Tell a passed deadline from a client that went away; its reset may arrive a moment before our clock."""
    remaining = call.context.time_remaining()
    late = remaining is not None and remaining < _CLOCK_MARGIN_SECONDS
    return grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED


async def _abort(call: ServedCall, status: status_pb2.Status) -> None:
    told = rpc_status.to_status(status)
    call.code = told.code
    try:
        async with asyncio.timeout(TELL_SECONDS):
            await call.context.abort(told.code, told.details, told.trailing_metadata)
    except (TimeoutError, grpc.aio.InternalError):
        # The client is gone, or the status waits behind an answer that it doesn't read: gRPC forgets it.
        raise asyncio.CancelledError from None


def _internal(call: ServedCall, error: BaseException) -> status_pb2.Status:
    """Log the whole error under an id and tell the client the id alone."""
    error_id = str(ids.uuid7())
    log.error("rpc.failed", method=call.method, error_id=error_id, exc_info=error)
    return status_pb2.Status(code=grpc.StatusCode.INTERNAL.value[0], message=f"internal error {error_id}")


def _note(call: ServedCall, refusal: DomainError, error: BaseException) -> None:
    if refusal is error:
        log.info("rpc.refused", method=call.method, reason=refusal.reason)
    else:
        log.warning("rpc.unavailable", method=call.method, reason=refusal.reason, exc_info=error)
