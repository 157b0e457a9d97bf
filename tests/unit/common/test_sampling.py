"""How many new traces are recorded, and that a trace is recorded whole or not at all."""

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import set_span_in_context

from libs.common.sampling import AtMost, sampler


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def recorded(limit: AtMost, calls: int) -> int:
    """Return how many of so many calls are recorded."""
    decisions = [limit.should_sample(None, number, "call").decision for number in range(calls)]
    return decisions.count(Decision.RECORD_AND_SAMPLE)


def test_a_second_has_room_for_so_many_traces_and_saves_nothing_up():
    clock = Clock()
    limit = AtMost(5, monotonic=clock)
    assert recorded(limit, 100) == 5
    clock.now += 0.4
    assert recorded(limit, 100) == 2
    clock.now += 60
    assert recorded(limit, 100) == 5


def test_less_than_one_a_second_is_one_now_and_then():
    clock = Clock()
    limit = AtMost(0.1, monotonic=clock)
    assert recorded(limit, 10) == 1
    clock.now += 9
    assert recorded(limit, 10) == 0
    clock.now += 1.5
    assert recorded(limit, 10) == 1


@pytest.mark.parametrize(("limit", "expected"), [(0.0, False), (1.0, True)])
def test_what_continues_a_trace_is_recorded_like_its_beginning(limit, expected):
    tracer = TracerProvider(sampler(limit)).get_tracer("test")
    first = tracer.start_span("first", context=Context())
    assert first.is_recording() is expected
    for _ in range(20):
        nested = tracer.start_span("nested", context=set_span_in_context(first))
        assert nested.is_recording() is expected
        assert nested.get_span_context().trace_id == first.get_span_context().trace_id


def test_a_trace_that_is_not_recorded_has_an_id_all_the_same():
    span = TracerProvider(sampler(0)).get_tracer("test").start_span("call")
    assert span.get_span_context().is_valid
