"""Give every served call a limit: the client's deadline, or a cap where it named none."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from libs.common import deadline
from libs.common.errors import DeadlineExceeded
from libs.common.interceptors.call import Serve, ServedCall, Step

_FAR_SECONDS = 10 * 365 * 86_400.0
"""gRPC reports a missing deadline as one some hundred years away."""


def limiting(long_polls: Collection[str] = (), *, cap_seconds: float = deadline.DEFAULT_CAP_SECONDS) -> Step:
    """Return the step; methods named in `long_polls` and streams have no cap of their own."""

    def step(proceed: Serve) -> Serve:
        async def serve(call: ServedCall) -> Any:
            remaining = call.context.time_remaining()
            if remaining is not None and remaining < _FAR_SECONDS:
                with deadline.limited_to(remaining):
                    return await proceed(call)  # gRPC cancels the handler when the client's deadline passes
            streams = call.shape.request_streaming or call.shape.response_streaming
            exempt = streams or call.method in long_polls
            return await _capped(proceed, call, None if exempt else cap_seconds)

        return serve

    return step


async def _capped(proceed: Serve, call: ServedCall, cap_seconds: float | None) -> Any:
    with deadline.limited_to(cap_seconds):
        limit = asyncio.timeout(cap_seconds)
        try:
            async with limit:
                return await proceed(call)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise DeadlineExceeded(
                f"the call took longer than {cap_seconds:g} s; set a deadline if it may take longer"
            ) from error
