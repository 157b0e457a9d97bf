"""Counting by labels."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from libs.common.tally import Tally


class Meters:
    """A provider whose counts can be read."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])

    def tally(self, name: str = "things", **more: int) -> Tally:
        """Return a tally by colour and size."""
        return Tally.of(self.provider, name, ("colour", "size"), unit="{thing}", description="x", **more)

    def counts(self) -> dict[tuple[str, ...], int]:
        """Return what was collected, by the values of the labels."""
        data = self.reader.get_metrics_data()
        metrics = (
            [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics] if data else []
        )
        return {
            (m.name, *point.attributes.values()): point.value for m in metrics for point in m.data.data_points
        }


def test_events_are_counted_by_their_labels_and_a_count_of_none_is_seen() -> None:
    meters = Meters()
    tally = meters.tally()
    tally.add("red", "big")
    tally.add("red", "big", count=4)
    tally.add("blue", "big", count=0)
    assert meters.counts() == {("things", "red", "big"): 5, ("things", "blue", "big"): 0}


def test_all_in_a_process_who_name_a_metric_count_into_the_same() -> None:
    meters = Meters()
    meters.tally().add("red", "big")
    meters.tally().add("red", "big")
    meters.tally("others").add("red", "big")
    assert meters.counts() == {("things", "red", "big"): 2, ("others", "red", "big"): 1}


def test_whoever_may_choose_a_label_cant_make_series_without_end() -> None:
    meters = Meters()
    tally = meters.tally(most=3)
    for size in range(1_000):
        tally.add("red", str(size))
    tally.add("red", "1")
    assert meters.counts() == {
        ("things", "red", "0"): 1,
        ("things", "red", "1"): 2,
        ("things", "red", "2"): 1,
        ("things", "other", "other"): 997,
    }
