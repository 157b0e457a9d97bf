"""What counts as trouble around a call, and what as an answer to it."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest

from libs.common.client import is_outage

OUTAGES = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
}


@pytest.mark.parametrize("code", list(grpc.StatusCode))
def test_a_stop_a_wrong_token_and_an_old_release_are_outages_and_refusals_are_none(
    code: grpc.StatusCode,
) -> None:
    error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="no")
    assert is_outage(error) == (code in OUTAGES)


@pytest.mark.parametrize("side", ["SERVER", "CLIENT"])
def test_a_message_over_the_limit_is_no_outage_since_the_same_call_fails_again(side: str) -> None:
    details = f"Stream removed ({side}: Received message larger than max (4209692 vs. 4194304))"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)
    assert not is_outage(error)
