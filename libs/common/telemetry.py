"""Report what a process does: JSON log events with trace ids, spans, and the counters of its calls."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import structlog
from opentelemetry import metrics, trace

from libs.common.access import Rules
from libs.common.ids import uuid7
from libs.common.redaction import note_secret, redacted_value
from libs.common.settings import OtlpEnvironment, TelemetrySettings, TransportSettings
from libs.common.tally import SCOPE, Tally

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

_SECOND_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

DURATIONS_PER_SECOND = 100
"""How many calls of a second are put into the histogram of durations; their counter tells of all."""


class Telemetry:
    """Hold the tracer and the instruments of calls; without providers of its own it uses the process's.

    Instruments: a histogram `rpc.<side>.duration` in seconds and a counter `rpc.<side>.calls`, both labelled
    with the full method name and the status code. The counter is exact; the histogram holds the first hundred
    calls of each second. `rpc.server.refusals` counts by method and stable reason what was refused.
    """

    def __init__(
        self,
        tracers: trace.TracerProvider | None = None,
        meters: metrics.MeterProvider | None = None,
    ) -> None:
        self.tracer = (tracers or trace.get_tracer_provider()).get_tracer(SCOPE)
        meter = (meters or metrics.get_meter_provider()).get_meter(SCOPE)
        self._durations = {
            side: meter.create_histogram(
                f"rpc.{side}.duration",
                unit="s",
                description="time from the start of a call to its end",
                explicit_bucket_boundaries_advisory=_SECOND_BUCKETS,
            )
            for side in ("server", "client")
        }
        self._calls = {
            side: Tally.of(
                meters, f"rpc.{side}.calls", ("method", "code"),
                unit="{call}", description="calls that ended",
            )
            for side in ("server", "client")
        }  # fmt: skip
        self._refusals = Tally.of(
            meters, "rpc.server.refusals", ("method", "reason"),
            unit="{call}", description="calls that were refused, by their stable reason",
        )  # fmt: skip
        self._second = self._left = 0

    def record(self, side: str, method: str, code: str, seconds: float) -> None:
        """Count one ended call; `side` is `server` or `client`.

        Of the durations a busy second keeps a sample: one costs as much as all else that is counted here.
        """
        self._calls[side].add(method, code)
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._left = second, DURATIONS_PER_SECOND
        if self._left > 0:
            self._left -= 1
            self._durations[side].record(seconds, {"method": method, "code": code})

    def refused(self, method: str, reason: str) -> None:
        """Count a served call that was refused for a documented reason."""
        self._refusals.add(method, reason)


def configure(
    settings: TelemetrySettings,
    service_name: str,
    *,
    transport: TransportSettings | None = None,
    rules: Rules | None = None,
) -> None:
    """Set up logs, traces and metrics of this process; called once, by `__main__`.

    Without an OTLP endpoint no trace is recorded nor leaves the process, but spans still have ids, so that
    the log lines of one call can be found together. `transport` and `rules` guard the page of metrics; a
    process without a `transport` has none.

    Raises:
        InsecureTransport, MetricsUnservable: the page of metrics can't be served as the settings have it, or
            the collector would be told in plaintext.
    """
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    from libs.common.sampling import sampler

    configure_logging(settings.log_level)
    resource = Resource.create(
        {
            "service.name": service_name,
            "service.namespace": "frontrow",
            # Replicas tell the same things; a collector keeps them apart by this.
            "service.instance.id": str(uuid7()),
        }
    )
    per_second = settings.traces_per_second if settings.otlp_endpoint else 0.0
    tracers = TracerProvider(sampler(per_second), resource=resource)
    readers: list[MetricReader] = []
    if settings.otlp_endpoint:
        readers.append(_export(tracers, settings, settings.otlp_endpoint))
    if settings.metrics_listen and transport is not None:
        from libs.common.metrics_endpoint import MetricsEndpoint

        readers.append(MetricsEndpoint(settings.metrics_listen, transport, rules or Rules({})))
    if readers:
        from libs.common.process_metrics import observe_process

        meters = _meters(readers, resource)
        metrics.set_meter_provider(meters)
        observe_process(meters)
    trace.set_tracer_provider(tracers)


def _export(tracers: TracerProvider, settings: TelemetrySettings, endpoint: str) -> MetricReader:
    """Send spans and metrics to a collector; imported here, so that a process without one starts sooner."""
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from libs.common.plaintext import permit_url
    from libs.common.redacted_spans import RedactingExporter

    permit_url(endpoint, "traces and metrics")
    for _, value in parse_qsl(OtlpEnvironment().headers.replace(",", "&")):
        note_secret(value)
    insecure = endpoint.startswith("http://")
    exporter = RedactingExporter(OTLPSpanExporter(endpoint=endpoint, insecure=insecure))
    tracers.add_span_processor(BatchSpanProcessor(exporter))
    return PeriodicExportingMetricReader(
        OTLPMetricExporter(endpoint=endpoint, insecure=insecure),
        export_interval_millis=settings.metric_interval_seconds * 1000,
    )


def _meters(readers: list[MetricReader], resource: Resource) -> metrics.MeterProvider:
    from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider

    # Exemplars would double the price of counting a call; logs name the trace of whatever went wrong.
    return MeterProvider(readers, resource=resource, exemplar_filter=AlwaysOffExemplarFilter())


def shut_down() -> None:
    """Send what is still held back; called once, at the end of the process."""
    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        stop = getattr(provider, "shutdown", None)
        if stop is not None:
            stop()


def configure_logging(level: str = "INFO") -> None:
    """Write every log line, those of libraries too, as one JSON object on stderr, without what is secret."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_trace_ids,
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _redact,
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)


def _redact(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Take what is secret out of a line; by now an exception is the text of its traceback."""
    return {name: redacted_value(value) for name, value in event.items()}


def _add_trace_ids(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        event["trace_id"] = trace.format_trace_id(span.trace_id)
        event["span_id"] = trace.format_span_id(span.span_id)
    return event
