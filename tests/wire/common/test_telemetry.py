"""Spans, counters and log lines of calls."""

import asyncio
import io
import json
import logging
import sys

import grpc
import pytest
import structlog
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from libs.common.client import reading
from libs.common.telemetry import DURATIONS_PER_SECOND, Telemetry, configure_logging
from libs.common.testing import eventually
from tests.wire.common.probe import ASK, WATCH, Probe, Request, Response, failure
from tests.wire.common.test_errors import Taken


class Observed:
    """Telemetry that keeps what it is told."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.telemetry = Telemetry(tracers, MeterProvider([self.reader]))

    def spans(self) -> dict:
        """Return the ended spans by (kind, name)."""
        return {(span.kind, span.name): span for span in self.exporter.get_finished_spans()}

    def counts(self, metric: str) -> dict:
        """Return how often each (method, code) was counted."""
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        points = [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for found in scope.metrics
            if found.name == metric
            for point in found.data.data_points
        ]
        counted = {}
        for point in points:
            key = (point.attributes["method"], point.attributes["code"])
            counted[key] = getattr(point, "value", None) or point.count
        return counted


@pytest.fixture
def observed() -> Observed:
    """Give telemetry of the test's own for both sides."""
    return Observed()


async def test_client_and_server_spans_of_a_call_belong_together(observed):
    async with Probe().serving(client=observed.telemetry, telemetry=observed.telemetry) as stub:
        await stub.Ask(Request(text="x"), timeout=5)
        spans = await eventually(lambda: len(observed.spans()) == 2 and observed.spans())
    client, server = spans[(SpanKind.CLIENT, ASK[1:])], spans[(SpanKind.SERVER, ASK[1:])]
    assert server.parent.span_id == client.context.span_id
    assert server.context.trace_id == client.context.trace_id
    assert dict(server.attributes) == {
        "rpc.system": "grpc",
        "rpc.service": "probe.v1.Probe",
        "rpc.method": "Ask",
        "rpc.grpc.status_code": 0,
    }


async def test_nested_calls_continue_the_trace(observed):
    async with Probe().serving(client=observed.telemetry, telemetry=observed.telemetry) as inner:

        async def watch(request, _context):
            yield await inner.Ask(request)

        async with Probe(watch=watch).serving(telemetry=observed.telemetry) as stub:
            assert [answer async for answer in stub.Watch(Request(), timeout=5)]
            spans = await eventually(lambda: len(observed.spans()) == 3 and observed.spans())
    assert len({span.context.trace_id for span in spans.values()}) == 1
    nested = spans[(SpanKind.CLIENT, ASK[1:])]
    assert nested.parent.span_id == spans[(SpanKind.SERVER, WATCH[1:])].context.span_id


async def test_calls_are_counted_by_method_and_code_on_both_sides(observed):
    async def ask(request, _context):
        if request.text == "bug":
            raise RuntimeError
        if request.text == "taken":
            raise Taken("no")
        return Response()

    async with Probe(ask=ask).serving(client=observed.telemetry, telemetry=observed.telemetry) as stub:
        await stub.Ask(Request(), timeout=5)
        await stub.Ask(Request(), timeout=5)
        for text in ("bug", "taken", "x" * 11):
            await failure(stub.Ask(Request(text=text), timeout=5))
        codes = {"OK": 2, "INTERNAL": 1, "ALREADY_EXISTS": 1, "INVALID_ARGUMENT": 1}
        expected = {(ASK, code): count for code, count in codes.items()}
        for side in ("server", "client"):
            for kind in ("calls", "duration"):
                name = f"rpc.{side}.{kind}"
                await eventually(lambda name=name: observed.counts(name) == expected)
    ended = observed.exporter.get_finished_spans()
    bug = [span for span in ended if span.attributes["rpc.grpc.status_code"] == 13]
    assert {span.status.status_code for span in bug} == {StatusCode.ERROR}
    assert not [span for span in bug if span.events], "the text of an error stays in the log"


async def test_cancelled_calls_and_streams_left_early_are_counted_as_cancelled(observed):
    started = asyncio.Event()

    async def ask(_request, _context):
        started.set()
        await asyncio.Event().wait()

    async def watch(_request, _context):
        while True:
            yield Response()
            await asyncio.sleep(0.01)

    probe = Probe(ask=ask, watch=watch)
    async with probe.serving(client=observed.telemetry, telemetry=observed.telemetry) as stub:
        call = stub.Ask(Request(), timeout=30)
        await asyncio.wait_for(started.wait(), 5)
        call.cancel()
        async with reading(stub.Watch(Request())) as answers:
            await anext(answers)
        expected = {(ASK, "CANCELLED"): 1, (WATCH, "CANCELLED"): 1}
        for side in ("server", "client"):
            await eventually(lambda side=side: observed.counts(f"rpc.{side}.calls") == expected)


async def test_a_deadline_is_counted_as_such_on_both_sides(observed):
    async def ask(_request, _context):
        await asyncio.Event().wait()

    async with Probe(ask=ask).serving(client=observed.telemetry, telemetry=observed.telemetry) as stub:
        error = await failure(stub.Ask(Request(), timeout=0.2))
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        for side in ("server", "client"):
            name = f"rpc.{side}.calls"
            await eventually(lambda name=name: observed.counts(name) == {(ASK, "DEADLINE_EXCEEDED"): 1})


@pytest.fixture
def json_log(monkeypatch):
    """Switch to the log of a real process, written to memory; switch back at the end."""
    stream, root = io.StringIO(), logging.getLogger()
    handlers, level, config = root.handlers, root.level, structlog.get_config()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging("INFO")
    yield lambda: [json.loads(entry) for entry in stream.getvalue().splitlines()]
    root.handlers, root.level = handlers, level
    structlog.configure(**config)


async def test_log_lines_of_a_call_are_json_with_its_trace_method_and_actor(observed, json_log):
    log = structlog.get_logger("test")

    async def ask(_request, _context):
        log.info("thing.done", thing="图", count=3)
        logging.getLogger("library").warning("old style %s", "line")
        raise RuntimeError("cause")

    async with Probe(ask=ask).serving(telemetry=observed.telemetry) as stub:
        await failure(stub.Ask(Request(), timeout=5, metadata=[("x-frontrow-actor", "anna")]))
    log.info("after")
    lines = {entry["event"]: entry for entry in json_log()}
    (span,) = observed.exporter.get_finished_spans()
    for name in ("thing.done", "old style line", "rpc.failed"):
        assert int(lines[name]["trace_id"], 16) == span.context.trace_id
        assert (lines[name]["method"], lines[name]["actor"]) == (ASK, "anna")
    assert (lines["thing.done"]["thing"], lines["thing.done"]["count"]) == ("图", 3)
    assert lines["thing.done"]["level"] == "info"
    assert lines["thing.done"]["timestamp"].endswith("Z")
    assert "RuntimeError: cause" in lines["rpc.failed"]["exception"]
    assert "trace_id" not in lines["after"]
    assert "method" not in lines["after"]


def test_a_busy_second_counts_every_call_and_keeps_a_sample_of_their_durations(observed):
    calls = 5 * DURATIONS_PER_SECOND
    for _ in range(calls):
        observed.telemetry.record("server", ASK, "OK", 0.01)
    assert observed.counts("rpc.server.calls") == {(ASK, "OK"): calls}
    [kept] = observed.counts("rpc.server.duration").values()
    assert DURATIONS_PER_SECOND <= kept < calls
