"""What is counted of submissions."""

from __future__ import annotations

import pytest
from frontrow.ingest.v1 import gallery_pb2
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from services.ingest.metrics import IngestMetrics

STREET, RUNWAY = gallery_pb2.GALLERY_KIND_STREET_SNAP, gallery_pb2.GALLERY_KIND_RUNWAY


@pytest.mark.parametrize(
    ("kind", "year", "month", "missing"),
    [
        (STREET, 0, 0, "year and month"),
        (STREET, 0, 8, "year"),
        (STREET, 2026, 0, "month"),
        (STREET, 2026, 8, None),
        (RUNWAY, 0, 0, None),
    ],
)
def test_street_snaps_that_miss_part_of_their_date_are_counted_by_source_and_what_they_miss(
    kind: gallery_pb2.GalleryKind.ValueType, year: int, month: int, missing: str | None
) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    metrics = IngestMetrics(provider)
    for _ in range(2):
        metrics.accepted("j", gallery_pb2.Gallery(kind=kind, year=year, month=month, source="old"))
    data = reader.get_metrics_data()
    points = [
        (point.attributes["source"], point.attributes["missing"], point.value)
        for resource in (data.resource_metrics if data else [])
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "ingest.street_snaps_undated"
        for point in metric.data.data_points
    ]
    assert points == ([("old", missing, 2)] if missing else [])
    provider.shutdown()
