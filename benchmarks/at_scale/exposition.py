"""Prometheus' text format, as far as counters and gauges are added up: pages here have megabytes."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class MetricsPage:
    """One page of metrics, read when it is asked for."""

    def __init__(self, text: str) -> None:
        self._text = text

    def sum(self, name: str, **labels: str) -> float:
        """Sum over the series of a metric that have these labels; 0 where there is none."""
        return sum(value for found, value in self.series(name) if labels.items() <= found.items())

    def by(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Sums over the series of a metric by these labels."""
        sums: dict[tuple[str, ...], float] = {}
        for found, value in self.series(name):
            key = tuple(found.get(label, "") for label in labels)
            sums[key] = sums.get(key, 0.0) + value
        return sums

    def series(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        """Labels and value of each series of a metric."""
        for match in re.finditer(rf"^{re.escape(name)}(?:\{{(.*)\}})? (\S+)", self._text, re.MULTILINE):
            yield dict(_LABEL.findall(match[1] or "")), float(match[2])
