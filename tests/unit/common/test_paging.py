"""Page sizes, tokens and the size of a reply."""

import base64
import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest
from google.protobuf import struct_pb2
from grpc_health.v1 import health_pb2
from hypothesis import given
from hypothesis import strategies as st

from libs.common.errors import InvalidArgument
from libs.common.paging import decode_token, encode_token, page_size, within_budget


def request(service: str = "a") -> health_pb2.HealthCheckRequest:
    """Return some request with an argument."""
    return health_pb2.HealthCheckRequest(service=service)


@pytest.mark.parametrize(
    ("asked", "given_size"), [(0, 50), (1, 1), (1000, 1000), (1001, 1000), (2**31 - 1, 1000)]
)
def test_page_sizes_follow_the_rules(asked, given_size):
    assert page_size(asked) == given_size


def test_a_negative_page_size_is_refused_by_name():
    with pytest.raises(InvalidArgument) as caught:
        page_size(-1)
    assert [violation.field for violation in caught.value.violations] == ["page_size"]


@given(
    st.lists(
        st.one_of(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
            st.integers(-(2**63), 2**63 - 1),
            st.booleans(),
            st.uuids(),
            st.datetimes(timezones=st.just(UTC)),
        ),
        min_size=1,
    )
)
def test_any_position_comes_back_as_it_was(position):
    kinds = [type(value) for value in position]
    assert decode_token(encode_token(position, request()), request(), *kinds) == tuple(position)


def test_a_time_in_another_zone_is_the_same_instant():
    moment = datetime(2026, 5, 1, 8, 30, 0, 123456, tzinfo=timezone(timedelta(hours=8)))
    position = (moment, uuid.UUID(int=1))
    assert decode_token(encode_token(position, request()), request(), datetime, uuid.UUID) == position


def test_no_token_is_the_first_page():
    assert decode_token("", request(), int) is None


def test_a_token_fits_the_arguments_it_was_made_for_alone():
    token = encode_token(["x"], request("a"))
    with pytest.raises(InvalidArgument, match="other arguments"):
        decode_token(token, request("b"), str)
    with pytest.raises(InvalidArgument, match="other arguments"):
        decode_token(token, struct_pb2.Value(string_value="a"), str)


@pytest.mark.parametrize(
    ("position", "kinds"),
    [
        ([], (int,)),
        ([1, 2], (int,)),
        ([1], (int, int)),
        (["1"], (int,)),
        ([True], (int,)),
        ([1.5], (int,)),
        ([None], (str,)),
        ([2**63], (int,)),
        ([-(2**63) - 1], (int,)),
        (["a\0"], (str,)),
        (["\ud800"], (str,)),
        (["x"], (uuid.UUID,)),
    ],
)
def test_a_made_up_position_is_refused_whatever_the_list(position, kinds):
    with pytest.raises(InvalidArgument) as caught:
        decode_token(encode_token(position, request()), request(), *kinds)
    assert [violation.field for violation in caught.value.violations] == ["page_token"]


def test_a_made_up_time_without_a_zone_is_refused():
    body = base64.b64decode(encode_token([datetime(2026, 5, 1, tzinfo=UTC)], request()) + "==")
    forged = base64.urlsafe_b64encode(body.replace(b"+00:00", b"")).decode()
    with pytest.raises(InvalidArgument):
        decode_token(forged, request(), datetime)


forged = (b'["d",[{"z":1}]]', b'["d",[{"t":1}]]', b'["d",[{"u":1}]]')


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "%%%",
        "a b",
        "图",
        "W" * 1_000_000,
        *(
            base64.urlsafe_b64encode(body).decode()
            for body in (b"[1]", b'{"a":1}', b'["d",7]', b"\xff", b"[" * 3000, *forged)
        ),
    ],
)
def test_what_is_no_token_is_refused_by_name(token):
    with pytest.raises(InvalidArgument) as caught:
        decode_token(token, request(), int)
    assert [violation.field for violation in caught.value.violations] == ["page_token"]


def test_a_page_ends_at_the_budget_and_never_before_its_first_message():
    messages = [request("x" * 98) for _ in range(10)]
    assert len(within_budget(messages, limit_bytes=300)) == 3
    assert len(within_budget(messages, limit_bytes=1)) == 1
    assert within_budget(messages) == messages
    assert within_budget([]) == []
