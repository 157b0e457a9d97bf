"""A call of the outbox belongs to the trace in which it was enqueued."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from libs.common.db import Database
from libs.common.outbox import OutboxRelay
from libs.common.testing import eventually
from libs.common.tracing import continuing, link_to, present_trace
from tests.integration.common.outbox.bed import OUTBOX, Refusals, enqueue_all, sent_all


class Tracing:
    """Notes in which trace each call is made."""

    def __init__(self) -> None:
        self.traces: dict[str, int] = {}

    async def __call__(self, body: bytes) -> None:
        self.traces[body.decode()] = trace.get_current_span().get_span_context().trace_id


async def test_each_call_goes_on_in_the_trace_of_its_row_and_without_one_in_none(
    database: Database, refusals: Refusals
) -> None:
    tracer = TracerProvider().get_tracer("test")
    receiver = Tracing()
    relay = OutboxRelay(database, OUTBOX, {"call": receiver}, on_rejected=refusals, interval_seconds=0.05)
    with tracer.start_as_current_span("one") as one:
        await enqueue_all(database, "a1")
    with tracer.start_as_current_span("other") as other:
        await enqueue_all(database, "b1")
    await enqueue_all(database, "c1")
    with tracer.start_as_current_span("whoever runs the relay"):
        await relay.start()
    await eventually(lambda: sent_all(database))
    await relay.stop()
    assert receiver.traces == {
        "a1": one.get_span_context().trace_id,
        "b1": other.get_span_context().trace_id,
        "c1": 0,
    }


def test_a_trace_is_written_down_and_continued_or_pointed_at() -> None:
    tracer = TracerProvider().get_tracer("test")
    assert present_trace() == ""
    with tracer.start_as_current_span("first") as first:
        written = present_trace()
    with continuing(written):
        assert present_trace() == written
    with continuing(""):
        assert present_trace() == ""
    with tracer.start_as_current_span("act of its own") as act:
        link_to("")
        link_to("no trace at all")
        link_to(written)
    assert act.get_span_context().trace_id != first.get_span_context().trace_id
    assert [link.context.span_id for link in act.links] == [first.get_span_context().span_id]  # type: ignore[attr-defined]
