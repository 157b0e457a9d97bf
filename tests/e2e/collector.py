"""A collector of traces that keeps what it is sent, and words to ask it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2

_SECONDS = 60.0


@dataclass
class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps spans by their trace."""

    address: str = ""
    spans: list[trace_pb2.Span] = field(default_factory=list)

    def Export(self, request, _context):
        """Take spans."""
        for resource in request.resource_spans:
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()

    def trace(self, trace_id: bytes) -> list[trace_pb2.Span]:
        """Return all spans of a trace that have arrived."""
        return [span for span in list(self.spans) if span.trace_id == trace_id]

    def wait_for(self, name: str, *, after: int = 0) -> trace_pb2.Span:
        """Wait for a served call or a run of this name; those among the first `after` spans don't count."""
        deadline = time.monotonic() + _SECONDS
        while True:
            for span in self.spans[after:]:
                if span.name == name and span.kind != trace_pb2.Span.SPAN_KIND_CLIENT:
                    return span
            assert time.monotonic() < deadline, f"no span {name}; there are {sorted(self.names(after))}"
            time.sleep(0.05)

    def names(self, after: int = 0) -> set[str]:
        """Return the names of the spans that came later."""
        return {span.name for span in self.spans[after:]}


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def Export(self, _request, _context):
        return metrics_service_pb2.ExportMetricsServiceResponse()


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector; give it."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    collector = Collector()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(_Metrics(), server)
    collector.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(0).wait()
