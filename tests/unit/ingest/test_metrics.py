"""What is counted of submissions."""

from __future__ import annotations

import pytest
from frontrow.ingest.v1 import gallery_pb2
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from services.ingest.metrics import IngestMetrics

STREET, RUNWAY = gallery_pb2.GALLERY_KIND_STREET_SNAP, gallery_pb2.GALLERY_KIND_RUNWAY


@pytest.mark.parametrize(("kind", "year", "counted"), [(STREET, 0, 2), (STREET, 2026, 0), (RUNWAY, 0, 0)])
def test_street_snaps_without_a_year_are_counted_by_source(
    kind: gallery_pb2.GalleryKind.ValueType, year: int, counted: int
) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    metrics = IngestMetrics(provider)
    for _ in range(2):
        metrics.accepted("j", gallery_pb2.Gallery(kind=kind, year=year, source="old"))
    data = reader.get_metrics_data()
    points = [
        (point.attributes["source"], point.value)
        for resource in (data.resource_metrics if data else [])
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "ingest.street_snaps_without_year"
        for point in metric.data.data_points
    ]
    assert points == ([("old", counted)] if counted else [])
    provider.shutdown()
