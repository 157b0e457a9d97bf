"""A domain error as a status, within the limits of metadata."""

import grpc
import grpc_testing
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status
from hypothesis import given
from hypothesis import strategies as st

from libs.common.client import ErrorDetail, error_info
from libs.common.errors import DomainError, FieldViolation, InvalidArgument, Kind
from libs.common.statuses import MAX_VIOLATIONS, STATUS_BUDGET_BYTES, carried_bytes, to_status


class Fact(DomainError):
    """Some documented fact."""

    kind = Kind.ABORTED
    reason = "LEASE_LOST"


def info_of(status) -> error_details_pb2.ErrorInfo:
    """Return the ErrorInfo of a status."""
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return info


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_its_code(kind):
    fact = type("Other", (DomainError,), {"kind": kind, "reason": "X"})("x")
    assert to_status(fact, "frontrow.x").code > 0


def test_reason_domain_and_metadata_are_an_error_info():
    info = info_of(to_status(Fact("gone", task_id="7"), "frontrow.task"))
    assert (info.reason, info.domain) == ("LEASE_LOST", "frontrow.task")
    assert dict(info.metadata) == {"task_id": "7"}


def test_one_field_is_refused_in_one_line():
    refusal = InvalidArgument.of_field("page_size", "must be positive")
    assert refusal.message == "page_size: must be positive"
    assert refusal.violations == (FieldViolation("page_size", "must be positive"),)


def test_a_synchronous_client_reads_the_same_of_a_failed_call():
    service = health_pb2.DESCRIPTOR.services_by_name["Health"]
    channel = grpc_testing.channel([service], grpc_testing.strict_real_time())
    call = health_pb2_grpc.HealthStub(channel).Check.future(health_pb2.HealthCheckRequest())
    _, _, rpc = channel.take_unary_unary(service.methods_by_name["Check"])
    fact = Fact("gone", violations=[FieldViolation("id", "is old")], retry_delay_seconds=0.5, task_id="7")
    told = rpc_status.to_status(to_status(fact, "frontrow.task"))
    rpc.terminate(None, told.trailing_metadata, told.code, told.details)
    with pytest.raises(grpc.RpcError) as caught:
        call.result()
    assert error_info(caught.value) == ErrorDetail(
        code=grpc.StatusCode.ABORTED,
        reason="LEASE_LOST",
        message="gone",
        metadata={"task_id": "7"},
        violations=(FieldViolation("id", "is old"),),
        retry_delay_seconds=0.5,
        domain="frontrow.task",
    )


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=9000)


@given(
    message=_text,
    values=st.lists(_text, max_size=30),
    violations=st.lists(st.tuples(_text, _text), max_size=60),
)
def test_no_error_outgrows_the_metadata_and_the_reason_always_arrives(message, values, violations):
    fact = Fact(
        message,
        violations=[FieldViolation(*violation) for violation in violations],
        retry_delay_seconds=1.0,
        **{f"key_{number}": value for number, value in enumerate(values)},
    )
    status = to_status(fact, "frontrow.task")
    assert carried_bytes(status) <= STATUS_BUDGET_BYTES
    assert info_of(status).reason == "LEASE_LOST"
    bad = error_details_pb2.BadRequest()
    for detail in status.details:
        detail.Unpack(bad)
    assert len(bad.field_violations) <= MAX_VIOLATIONS
