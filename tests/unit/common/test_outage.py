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
