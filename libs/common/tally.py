"""Numbers by a few labels at the price of a dictionary; read when metrics are collected.

A counter of the SDK costs ten times as much an event, which the hot calls would feel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Self
from weakref import WeakKeyDictionary

from opentelemetry import metrics

SCOPE = "frontrow"
MOST_SERIES = 2_000
OTHER = "other"
"""What stands for labels beyond those that a metric may have."""


class _Numbers:
    """A metric with fixed labels, shared by all in a process that name it."""

    _by_meter: ClassVar[WeakKeyDictionary[metrics.Meter, dict[str, _Numbers]]] = WeakKeyDictionary()

    def __init__(self, labels: Sequence[str], most: int) -> None:
        self._labels = tuple(labels)
        self._most = most

    @classmethod
    def of(
        cls, meters: metrics.MeterProvider | None, name: str, labels: Sequence[str] = (), *, unit: str,
        description: str, most: int = MOST_SERIES,
    ) -> Self:  # fmt: skip
        """Return the metric of this name; without a provider of its own that of the process's.

        `unit` is OpenTelemetry's: what is counted stands in braces, `{call}`. `most` bounds the sets of
        labels that it has.
        """
        meter = (meters or metrics.get_meter_provider()).get_meter(SCOPE)
        known = _Numbers._by_meter.setdefault(meter, {})
        if name not in known:  # a meter takes each name once
            made = known[name] = cls(labels, most)
            made._register(meter, name, unit=unit, description=description)
        found = known[name]
        assert isinstance(found, cls)
        return found

    def _register(self, meter: metrics.Meter, name: str, *, unit: str, description: str) -> None:
        raise NotImplementedError

    def _observe(self, numbers: Mapping[tuple[str, ...], float]) -> Iterable[metrics.Observation]:
        # A copy: this runs in the exporter's thread.
        for values, number in dict(numbers).items():
            yield metrics.Observation(number, dict(zip(self._labels, values, strict=True)))


class Tally(_Numbers):
    """Counts events. What comes beyond its most sets of labels is counted under `other`.

    So nobody who may choose a label can fill a collector.
    """

    def __init__(self, labels: Sequence[str], most: int) -> None:
        super().__init__(labels, most)
        self._counts: Counter[tuple[str, ...]] = Counter()

    def add(self, *values: str, count: int = 1) -> None:
        """Count events whose labels have these values, in the order of the names; 0 makes them seen."""
        if values not in self._counts and len(self._counts) >= self._most:
            values = (OTHER,) * len(self._labels)
        self._counts[values] += count

    def _register(self, meter: metrics.Meter, name: str, *, unit: str, description: str) -> None:
        def read(_options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
            return self._observe(self._counts)

        meter.create_observable_counter(name, [read], unit=unit, description=description)


class Level(_Numbers):
    """Tells how high something stands; what comes beyond its most sets of labels isn't told."""

    def __init__(self, labels: Sequence[str], most: int) -> None:
        super().__init__(labels, most)
        self._levels: dict[tuple[str, ...], float] = {}

    def set(self, level: float, *values: str) -> None:
        """Note the level of these labels' values."""
        if values in self._levels or len(self._levels) < self._most:
            self._levels[values] = level

    def forget(self) -> None:
        """Tell nothing until it is noted again: what was known is no longer true."""
        self._levels = {}

    def _register(self, meter: metrics.Meter, name: str, *, unit: str, description: str) -> None:
        def read(_options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
            return self._observe(self._levels)

        meter.create_observable_gauge(name, [read], unit=unit, description=description)
