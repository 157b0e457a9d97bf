"""Take what is secret out of spans as they leave the process: an exception is recorded with its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Link, Status
from opentelemetry.util.types import AttributeValue

from libs.common.redaction import redacted


class RedactingExporter(SpanExporter):
    """Hands spans on with redacted attributes, events and status."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """See SpanExporter."""
        return self._exporter.export([_without_secrets(span) for span in spans])

    def shutdown(self) -> None:
        """See SpanExporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """See SpanExporter."""
        return self._exporter.force_flush(timeout_millis)


def _without_secrets(span: ReadableSpan) -> ReadableSpan:
    status = span.status
    if status.description:
        status = Status(status.status_code, redacted(status.description))
    return ReadableSpan(
        name=redacted(span.name),
        context=span.get_span_context(),
        parent=span.parent,
        resource=span.resource,
        attributes=_texts(span.attributes),
        events=[Event(redacted(one.name), _texts(one.attributes), one.timestamp) for one in span.events],
        links=[Link(link.context, _texts(link.attributes)) for link in span.links],
        kind=span.kind,
        status=status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _texts(attributes: Mapping[str, AttributeValue] | None) -> dict[str, AttributeValue]:
    return {name: _told(value) for name, value in (attributes or {}).items()}


def _told(value: AttributeValue) -> AttributeValue:
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):  # all of one type, as the API has it
        return tuple(redacted(one) if isinstance(one, str) else one for one in value)
    return value
