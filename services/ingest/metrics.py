"""What the ingest server counts beside its calls."""

from __future__ import annotations

import structlog
from frontrow.ingest.v1 import gallery_pb2
from opentelemetry import metrics

log = structlog.get_logger(__name__)


class IngestMetrics:
    """Counters of submissions; without a provider of its own it uses the process's."""

    def __init__(self, meters: metrics.MeterProvider | None = None) -> None:
        meter = (meters or metrics.get_meter_provider()).get_meter("frontrow.ingest")
        self._without_year = meter.create_counter(
            "ingest.street_snaps_without_year",
            unit="{gallery}",
            description="street snaps that say no year: their spiders are to be updated",
        )

    def accepted(self, job_id: str, gallery: gallery_pb2.Gallery) -> None:
        """Count a gallery that got in; one without a year is taken and never guessed at (domain.md 3.7)."""
        if gallery.kind == gallery_pb2.GALLERY_KIND_STREET_SNAP and gallery.year == 0:
            self._without_year.add(1, {"source": gallery.source})
            log.warning("gallery.without_year", job_id=job_id, source=gallery.source)
