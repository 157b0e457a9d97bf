"""Refuse calls at once while the database gives no answer at all.

A database that is gone refuses connections, and a call learns that at once. One that is silent (a frozen
machine, a cut network) lets each call wait for its deadline, until no other finds room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from libs.common.errors import DatabaseUnavailable
from libs.common.interceptors.call import Serve, ServedCall, Step

_OWN = "/grpc."
"""Health and reflection: what needs no database."""
_RETRY_SECONDS = 1.0


def refusing_while(silent: Callable[[], bool]) -> Step:
    """Return the step; `silent` tells whether the database gives no answer."""

    def step(proceed: Serve) -> Serve:
        async def serve(call: ServedCall) -> Any:
            if silent() and not call.method.startswith(_OWN):
                raise DatabaseUnavailable(
                    "the database has given no answer for seconds; the same call may succeed later",
                    retry_delay_seconds=_RETRY_SECONDS,
                )
            return await proceed(call)

        return serve

    return step
