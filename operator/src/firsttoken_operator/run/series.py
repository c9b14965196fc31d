"""Series of many resources: one number each beside its labels, and text only where they are read.

A child of prometheus_client's own metrics takes a kilobyte and a lock; an operator has some thirty for every resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

Labels = tuple[str, ...]


class GaugeSeries(Collector):
    """A gauge of so many labels. One thread changes it, any may read it."""

    def __init__(self, name: str, text: str, labels: Labels, registry: CollectorRegistry) -> None:
        self._name, self._text, self._labelnames = name, text, labels
        self._values: dict[Labels, float] = {}
        registry.register(self)

    def set(self, labels: Labels, value: float | None) -> None:
        """Show this value; None takes the series away, because an unknown is not a zero."""
        if value is None:
            self._values.pop(labels, None)
        else:
            self._values[labels] = value

    def replace(self, values: Mapping[Any, float]) -> None:
        """Make these the series, without a moment in which one of them is not there."""
        self._values = dict(values)

    def describe(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        """The family without its series."""
        return [self._family()]

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        """The family with the series that are there now."""
        family = self._family()
        # NB: a list, because making it is one step for other threads, and going through the dictionary is not.
        for labels, value in list(self._values.items()):
            family.add_metric(labels, value)
        return [family]

    def _family(self) -> GaugeMetricFamily | CounterMetricFamily:
        return GaugeMetricFamily(self._name, self._text, labels=self._labelnames)


class CounterSeries(GaugeSeries):
    """A counter of so many labels."""

    def add(self, labels: Labels, amount: float) -> None:
        """Count so much more; a series begins with it."""
        self.set(labels, self._values.get(labels, 0.0) + amount)

    def _family(self) -> GaugeMetricFamily | CounterMetricFamily:
        return CounterMetricFamily(self._name, self._text, labels=self._labelnames)
