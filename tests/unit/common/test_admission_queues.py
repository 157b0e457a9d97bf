"""Which calls tell of one queue, as gRPC has them: urgent methods have their own, all others share one."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import grpc
import pytest

from libs.common.interceptors.admission import Admission
from libs.common.interceptors.call import Serve, ServedCall, Shape
from libs.common.interceptors.sojourn import LONG_SECONDS, timeout_metadata
from libs.common.telemetry import Telemetry

URGENT = "/probe.v1.Probe/Beat"


class Refused(Exception):
    """What gRPC raises where a call is aborted."""


class Context:
    """A call of a known client that waited too long."""

    def time_remaining(self) -> float:
        """Return what is left, in seconds."""
        return 30.0 - 1.5 * LONG_SECONDS

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return what the client sent."""
        return (timeout_metadata(30),)

    def peer(self) -> str:
        """Return the connection's name."""
        return "ipv4:10.0.0.1:1"

    async def abort(self, code: grpc.StatusCode, *_rest: object) -> None:
        """End the call."""
        raise Refused(code)


async def _serve(_call: ServedCall) -> str:
    return "served"


@pytest.fixture
def serve() -> Serve:
    admission = Admission(
        "frontrow.probe",
        64,
        Telemetry(),
        room_for_waits=0,
        long_polls=(),
        urgent={URGENT: lambda request: request == "urgent"},
    )
    return admission.limited(_serve)


def call_of(method: str) -> ServedCall:
    context: Any = Context()
    return ServedCall(method, Shape.UNARY_UNARY, context)


async def until_refused(serve: Serve) -> None:
    """Make calls of another method each, until one is refused."""
    async with asyncio.timeout(10):
        for number in itertools.count():
            try:
                await serve(call_of(f"/probe.v1.Probe/Method{number}"))
            except Refused:
                return
            await asyncio.sleep(0)


async def test_calls_of_many_methods_that_waited_long_tell_of_the_queue_that_they_share(serve: Serve) -> None:
    await until_refused(serve)
    with pytest.raises(Refused):
        await serve(call_of("/probe.v1.Probe/Other"))


async def test_a_method_with_a_queue_of_its_own_is_not_refused_for_the_others(serve: Serve) -> None:
    await until_refused(serve)
    assert await serve(call_of(URGENT)) == "served"
