"""Attack every method with requests of every kind, and knock at each with every token."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import grpc
from google.protobuf import message_factory
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from libs.common.paging import Position, encode_token
from tests.soak.system.fuzz import oracle
from tests.soak.system.fuzz.messages import fault_in, requests
from tests.soak.system.fuzz.methods import Method, every_method
from tests.soak.system.fuzz.target import Metadata, Target

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
MOST_MESSAGES = 4
_POSITIONS: tuple[list[Position], ...] = (
    [], [1], [-1], [2**63], [2**200], [1.5], [math.nan], [True], [None], ["x"], ["a\0"], ["\ud800"],
    ["x", 1], [1, True], [UUID(int=1)], [UUID(int=1), 2**40], [datetime.max.replace(tzinfo=UTC), UUID(int=1)],
)  # fmt: skip
# What the lists want before they look at a token.
_FITTING: dict[str, dict[str, Any]] = {
    "ListDrafts": {"kind": 1},
    "SearchTranscripts": {"keywords": "a"},
    "RetryIngestJobs": {"filter": {"failure_reasons": ["X"]}},
    "ListClips": {"video_project_id": str(UUID(int=1))},
    "GetRunway": {"runway_id": "1"},
    "GetStreetSnap": {"street_snap_id": "1"},
}


def attack(target: Target, context: str, *, examples: int, repeatable: bool) -> int:
    """Send each method of a context `examples` requests, and half as many for each field with that at fault.

    Return how many were sent.

    `repeatable`: the same ones each time. Otherwise new ones, and a failure prints how to have it again.
    """
    profile = settings(
        max_examples=examples, derandomize=repeatable, database=None, deadline=None, print_blob=True,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=_SLOW,
    )  # fmt: skip
    sent = 0
    few = settings(profile, max_examples=max(2, examples // 2))
    for method in every_method():
        if method.context == context:
            sent += _attack_by(target, method, requests(method.request, target.known), profile)
            for field in method.request.fields:
                faulty = fault_in(method.request, target.known, field.name)
                sent += _attack_by(target, method, faulty, few)
    return sent


def _attack_by(target: Target, method: Method, messages: st.SearchStrategy[bytes], profile: settings) -> int:
    streams = st.lists(messages, max_size=MOST_MESSAGES) if method.client_streams else messages.map(_alone)
    sent = 0

    @profile
    @given(streams)
    def send(raws: list[bytes]) -> None:
        nonlocal sent
        sent += 1
        signature = target.signed(method, raws[0]) if raws else ()
        oracle.check(target, target.call(method, raws, (*target.bearer("admin"), *signature)))

    send()
    return sent


def _alone(raw: bytes) -> list[bytes]:
    return [raw]


def forge(target: Target, methods: Iterable[Method]) -> int:
    """Make up page tokens for every list: of its own request, with positions of all kinds."""
    made = 0
    for method in methods:
        if not any(name.endswith("page_token") for name in method.request.fields_by_name):
            continue
        for position in _POSITIONS:
            request = message_factory.GetMessageClass(method.request)(**_FITTING.get(method.name, {}))
            token = encode_token(position, request)
            name = next(name for name in method.request.fields_by_name if name.endswith("page_token"))
            setattr(request, name, token)
            oracle.check(target, target.call(method, [request.SerializeToString()]))
            made += 1
    return made


def strangers() -> list[tuple[str, Metadata]]:
    """Return what somebody sends whom nobody knows."""
    return [
        ("no token", ()),
        ("an empty token", (("authorization", "Bearer "),)),
        ("no scheme", (("authorization", "canary"),)),
        ("another scheme", (("authorization", "Basic YTpi"),)),
        ("an unknown token", (("authorization", "Bearer " + "x" * 43),)),
        ("a long token", (("authorization", "Bearer " + "x" * 4_000),)),
        ("a token and a bit", (("authorization", "Bearer canary-token-of-admin "), ("authorization", "x"))),
    ]


def knock(target: Target, methods: Iterable[Method], roles: Iterable[str]) -> None:
    """Call every method with every token, and as a stranger: the table decides, and nothing else."""
    callers = [(role, target.bearer(role)) for role in roles]
    for method in methods:
        for role, metadata in callers:
            _knock(target, method, role, metadata, may=oracle.may_call(method.path, role))
        for name, metadata in [*strangers(), ("a token that is over", target.bearer("late"))]:
            open_to_all = name == "no token" and oracle.may_call(method.path, None)
            _knock(target, method, name, metadata, may=open_to_all, known=False)


def _knock(
    target: Target, method: Method, who: str, metadata: Metadata, *, may: bool, known: bool = True
) -> None:
    outcome = target.call(method, [b""], metadata)
    oracle.check(target, outcome)
    if may:
        assert outcome.reason not in {"TOKEN_MISSING", "TOKEN_UNKNOWN", "ROLE_MISSING"}, (who, outcome)
    elif known:
        assert (outcome.code, outcome.reason) == (grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING"), (
            who,
            outcome,
        )
    else:
        assert outcome.code is grpc.StatusCode.UNAUTHENTICATED, (who, outcome)
        assert outcome.reason in {"TOKEN_MISSING", "TOKEN_UNKNOWN"}, (who, outcome)
