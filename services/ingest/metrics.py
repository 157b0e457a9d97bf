"""What the ingest server and its worker count beside calls and runs."""

from __future__ import annotations

import structlog
from frontrow.ingest.v1 import gallery_pb2
from opentelemetry import metrics

from libs.common.tally import Tally
from services.ingest.states import DoneReason

log = structlog.get_logger(__name__)

MOST_SOURCES = 50

_LAYERS = {
    DoneReason.SOURCE_DUPLICATE: "source",
    DoneReason.SOURCE_CONFLICT: "source",
    DoneReason.ENTITY_DUPLICATE: "entity",
}


# By whether the year is missing, and whether the month is.
_MISSING = {(True, True): "year and month", (True, False): "year", (False, True): "month"}


class DedupeHits:
    """Counts what each of the four layers of dedupe has stopped (domain.md 3.3)."""

    def __init__(self, meters: metrics.MeterProvider | None = None) -> None:
        self._hits = Tally.of(
            meters, "dedupe_hit", ("layer",),
            unit="{hit}", description="what was known already: requests, articles, images, pages",
        )  # fmt: skip
        for layer in ("transport", "source", "content", "entity"):
            self._hits.add(layer, count=0)  # seen before the first one: a rise from nothing is no rise

    def transport(self) -> None:
        """Count a request that was sent before."""
        self._hits.add("transport")

    def content(self, images: int) -> None:
        """Count images whose very bytes are stored."""
        if images:
            self._hits.add("content", count=images)

    def done(self, reason: DoneReason) -> None:
        """Count a job that was done as a duplicate: of an article, or of a page."""
        if reason in _LAYERS:
            self._hits.add(_LAYERS[reason])


class IngestMetrics:
    """Counts submissions and jobs; without a provider of its own it uses the process's."""

    def __init__(self, meters: metrics.MeterProvider | None = None) -> None:
        self.hits = DedupeHits(meters)
        self._jobs = Tally.of(
            meters, "ingest.jobs_ended", ("outcome",), unit="{job}", description="jobs that ended, and how"
        )
        self._undated = Tally.of(
            meters, "ingest.street_snaps_undated", ("source", "missing"), most=MOST_SOURCES * len(_MISSING),
            unit="{gallery}",
            description="street snaps that don't say year or month: their spiders are to be updated",
        )  # fmt: skip

    def accepted(self, job_id: str, gallery: gallery_pb2.Gallery) -> None:
        """Count a gallery that got in; a date that it misses is never guessed at (domain.md 3.7)."""
        if gallery.kind == gallery_pb2.GALLERY_KIND_STREET_SNAP and not (gallery.year and gallery.month):
            missing = _MISSING[gallery.year == 0, gallery.month == 0]
            self._undated.add(gallery.source, missing)
            log.warning("gallery.undated", job_id=job_id, source=gallery.source, missing=missing)

    def ended(self, reason: DoneReason | None) -> None:
        """Count a job that is done for a reason, or (None) has failed."""
        self._jobs.add("failed" if reason is None else reason.value)
        if reason is not None:
            self.hits.done(reason)
