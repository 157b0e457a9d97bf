"""Count events by a few labels at the price of a dictionary; read when metrics are collected.

A counter of the SDK costs ten times as much an event, which the hot calls would feel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar
from weakref import WeakKeyDictionary

from opentelemetry import metrics

SCOPE = "frontrow"
MOST_SERIES = 2_000
OTHER = "other"
"""What stands for labels beyond those that a metric may have."""


class Tally:
    """A counter of events with fixed labels, shared by all in a process that name it.

    It keeps at most `most` sets of labels; what comes beyond is counted under `other`, so that nobody who
    may choose a label can fill a collector.
    """

    _by_meter: ClassVar[WeakKeyDictionary[metrics.Meter, dict[str, Tally]]] = WeakKeyDictionary()

    def __init__(
        self, meter: metrics.Meter, name: str, labels: Sequence[str], *, unit: str, description: str,
        most: int = MOST_SERIES,
    ) -> None:  # fmt: skip
        self._labels = tuple(labels)
        self._most = most
        self._counts: Counter[tuple[str, ...]] = Counter()
        meter.create_observable_counter(name, [self._read], unit=unit, description=description)

    @classmethod
    def of(
        cls, meters: metrics.MeterProvider | None, name: str, labels: Sequence[str] = (), *, unit: str,
        description: str, most: int = MOST_SERIES,
    ) -> Tally:  # fmt: skip
        """Return the tally of this name; without a provider of its own that of the process's.

        `unit` is what is counted, in braces as OpenTelemetry has it: `{call}`.
        """
        meter = (meters or metrics.get_meter_provider()).get_meter(SCOPE)
        known = cls._by_meter.setdefault(meter, {})
        if name not in known:  # a meter takes each name once
            known[name] = cls(meter, name, labels, unit=unit, description=description, most=most)
        return known[name]

    def add(self, *values: str, count: int = 1) -> None:
        """Count events whose labels have these values, in the order of the names; 0 makes them seen."""
        if values not in self._counts and len(self._counts) >= self._most:
            values = (OTHER,) * len(self._labels)
        self._counts[values] += count

    def _read(self, _options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        # A copy: this runs in the exporter's thread.
        for values, count in self._counts.copy().items():
            yield metrics.Observation(count, dict(zip(self._labels, values, strict=True)))
