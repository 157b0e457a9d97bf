"""What leaves a process, and what it costs one that reports nowhere."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from tests.wire.common.authority import Authority

_REPORT = """
import sys
from libs.common import telemetry
from libs.common.settings import TelemetrySettings

telemetry.configure(TelemetrySettings(), "frontrow-test")
kept = telemetry.Telemetry()
with kept.tracer.start_as_current_span("work"):
    kept.record("server", "/a.B/C", "OK", 0.01)
telemetry.shut_down()
print(any(name.startswith("opentelemetry.exporter") for name in sys.modules))
"""


_RAISE = """
from pydantic import SecretStr
from libs.common import telemetry
from libs.common.redaction import note_secret
from libs.common.settings import TelemetrySettings

telemetry.configure(TelemetrySettings(), "frontrow-test")
note_secret("canary-of-the-traces")
try:
    with telemetry.Telemetry().tracer.start_as_current_span("work", attributes={"url": "http://h/?TOPSECRET"}):
        raise OSError("no http://h/x?X-Amz-Signature=TOPSECRET for canary-of-the-traces")
except OSError:
    pass
telemetry.shut_down()
"""


class Collector(trace_service_pb2_grpc.TraceServiceServicer, metrics_service_pb2_grpc.MetricsServiceServicer):
    """An OTLP collector that keeps the names it is sent."""

    def __init__(self) -> None:
        self.spans: list[str] = []
        self.told = ""
        self.metrics: list[str] = []
        self.services: set[str] = set()
        self.keys: set[str] = set()

    def Export(self, request, context):
        """Take spans or metrics; both services call it so."""
        self.keys |= {value for key, value in context.invocation_metadata() if key == "x-key"}
        if isinstance(request, trace_service_pb2.ExportTraceServiceRequest):
            for resource in request.resource_spans:
                named = {a.key: a.value.string_value for a in resource.resource.attributes}
                self.services.add(named["service.name"])
                self.told += str(resource)
                self.spans += [span.name for scope in resource.scope_spans for span in scope.spans]
            return trace_service_pb2.ExportTraceServiceResponse()
        for resource in request.resource_metrics:
            self.metrics += [metric.name for scope in resource.scope_metrics for metric in scope.metrics]
        return metrics_service_pb2.ExportMetricsServiceResponse()


def report(program: str = _REPORT, **environment: str) -> str:
    """Run a process that reports one span and one call, unless told otherwise; return what it prints."""
    env = {"PYTHONPATH": ".:libs/client", "PATH": "/usr/bin:/bin", **environment}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, timeout=60, check=True)
    return done.stdout.decode().strip()


def test_without_an_endpoint_nothing_is_sent_nor_even_imported():
    assert report() == "False"


@contextmanager
def collecting(pair: tuple[Path, Path] | None = None) -> Iterator[tuple[Collector, str]]:
    """Give a collector and its endpoint; with a certificate and its key over TLS."""
    collector = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(collector, server)
    if pair is None:
        scheme, port = "http", server.add_insecure_port("127.0.0.1:0")
    else:
        credentials = grpc.ssl_server_credentials([(pair[1].read_bytes(), pair[0].read_bytes())])
        scheme, port = "https", server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield collector, f"{scheme}://127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


def test_with_an_endpoint_spans_and_metrics_arrive_at_the_end_of_the_process():
    with collecting() as (collector, endpoint):
        assert report(FRONTROW_OTLP_ENDPOINT=endpoint) == "True"
    assert collector.spans == ["work"]
    assert {"rpc.server.duration", "rpc.server.calls"} <= set(collector.metrics)
    assert collector.services == {"frontrow-test"}


def test_a_collector_of_an_authority_of_ones_own_is_sent_its_key_over_tls_and_nobody_else_is_told(tmp_path):
    authority = Authority(tmp_path)
    with collecting(authority.issue("collector")) as (collector, endpoint):
        report(
            _RAISE.replace("canary-of-the-traces", "key/of-the-collector", 1),
            FRONTROW_OTLP_ENDPOINT=endpoint,
            OTEL_EXPORTER_OTLP_CERTIFICATE=str(authority.roots),
            OTEL_EXPORTER_OTLP_HEADERS="x-key=canary-of-the%2Dtraces",
        )
    assert collector.spans == ["work"]
    assert collector.keys == {"canary-of-the-traces"}
    assert "canary-of-the-traces" not in collector.told


def test_no_trace_tells_a_secret_not_even_by_an_exception():
    with collecting() as (collector, endpoint):
        report(_RAISE, FRONTROW_OTLP_ENDPOINT=endpoint)
    assert collector.spans == ["work"]
    assert "exception.stacktrace" in collector.told
    assert "TOPSECRET" not in collector.told
    assert "canary" not in collector.told
