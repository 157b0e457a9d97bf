"""What alerts and dashboard say of methods, codes and reasons is held to the servers' own."""

import re
from collections.abc import Iterator

import grpc

from tests.soak.system.fuzz.methods import every_method
from tests.unit.cli.reasons import given
from tests.unit.deploy.expressions import alerts, panels, selectors

# They wait for work, or look at all that is stored.
LONG = {"ClaimTasks", "CleanUpMedia", "VerifyMedia", "FindSimilar"}
DURATION = "frontrow_rpc_server_duration_seconds_bucket"


def _expressions() -> Iterator[tuple[str, str]]:
    yield from alerts()
    yield from ((title, expression) for title, expression, _ in panels())


def _values(label: str) -> Iterator[tuple[str, str]]:
    """Yield the values that an expression asks of a label, and where."""
    for title, expression in _expressions():
        for asked in re.findall(rf'\b{label}(?:=|=~|!=|!~)"([^"]*)"', expression):
            yield from ((title, value) for value in asked.split("|"))


def test_calls_that_last_by_their_nature_are_never_called_slow_and_no_others_are_left_out() -> None:
    lasting = {one.path for one in every_method() if one.client_streams or one.server_streams}
    lasting |= {one.path for one in every_method() if one.name in LONG}
    asked = [(title, expression) for title, expression in _expressions() if DURATION in expression]
    assert len(asked) == 2  # the alert and the panel
    for title, expression in asked:
        (left_out,) = re.findall(r'method!~"([^"]*)"', expression)
        found = {one.path for one in every_method() if re.fullmatch(left_out, one.path)}
        assert found == lasting, f"{title}: {found ^ lasting}"


def test_whatever_is_asked_for_comes_by_the_collector_as_well_as_from_a_processs_own_page() -> None:
    for title, expression in _expressions():
        for selector in selectors(expression.replace("$__rate_interval", "5m")):
            assert selector.name == "up" or selector.name.startswith("frontrow_"), title


def test_every_code_and_every_reason_that_is_asked_for_is_one_that_a_call_may_have() -> None:
    codes = {code.name for code in grpc.StatusCode}
    assert {value for _, value in _values("code")} <= codes
    reasons = {value for _, value in _values("reason")}
    assert len(reasons) > 3
    assert reasons <= given()
