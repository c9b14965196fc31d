"""Counters, gauges and histograms of one pod, rendered in the Prometheus text format.

Why not `prometheus_client`: sixty pods scraped twice a second are 13,000 lines a second beside an API server on two
cores. Here the text in front of each value is built once, so a scrape is one join. Spelling follows the Python client,
which NIM and vLLM use: floats everywhere (`le="1.0"`), labels sorted by name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def _labels(labels: Mapping[str, str]) -> str:
    def escape(value: str) -> str:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")

    inside = ",".join(f'{name}="{escape(value)}"' for name, value in sorted(labels.items()))
    return f"{{{inside}}}" if inside else ""


def _head(name: str, kind: str, text: str) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} {kind}"


class Scalar:
    """A gauge or a counter with fixed labels; set or add to `value`."""

    def __init__(self, kind: str, name: str, text: str, labels: Mapping[str, str]) -> None:
        self.value = 0.0
        self._prefix = f"{_head(name, kind, text)}\n{name}{_labels(labels)} "

    def render(self, lines: list[str]) -> None:
        """Append the family."""
        lines.append(f"{self._prefix}{float(self.value)!r}")


class LabelledCounter:
    """A counter with one variable label. As in the Python client, a child is absent until its first increment.

    `known`: values of the label by what is counted; then all of these are there from the beginning, and nothing else
    is counted.
    """

    def __init__(
        self,
        name: str,
        text: str,
        labels: Mapping[str, str],
        variable: str,
        known: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.values: dict[str, float] = dict.fromkeys(known.values(), 0.0)
        self._known = known
        self._name = name
        self._head = _head(name, "counter", text)
        self._fixed = dict(labels)
        self._variable = variable

    def increment(self, value: str) -> None:
        """Count one more with `value` in the variable label, or what is known for it."""
        if self._known:
            if value not in self._known:
                return
            value = self._known[value]
        self.values[value] = self.values.get(value, 0.0) + 1.0

    def render(self, lines: list[str]) -> None:
        """Append the family."""
        lines.append(self._head)
        for value, count in self.values.items():
            lines.append(f"{self._name}{_labels({**self._fixed, self._variable: value})} {count!r}")


class States:
    """A gauge with one series for each value of a label: 1 for the present `state`, 0 for all others."""

    def __init__(
        self, name: str, text: str, labels: Mapping[str, str], variable: str, values: Sequence[str], state: str
    ) -> None:
        self.state = state
        self._head = _head(name, "gauge", text)
        self._prefixes = {value: f"{name}{_labels({**labels, variable: value})} " for value in values}

    def render(self, lines: list[str]) -> None:
        """Append the family."""
        lines.append(self._head)
        lines += [f"{prefix}{float(value == self.state)!r}" for value, prefix in self._prefixes.items()]


class Histogram:
    """A cumulative histogram over fixed upper bounds."""

    def __init__(self, name: str, text: str, labels: Mapping[str, str], bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        """Observations in each bucket (not cumulative), the last one above every bound."""
        self.sum = 0.0
        self._head = _head(name, "histogram", text)
        spelled = [repr(float(bound)) for bound in self.bounds] + ["+Inf"]
        self._buckets = [f"{name}_bucket{_labels({**labels, 'le': bound})} " for bound in spelled]
        self._count = f"{name}_count{_labels(labels)} "
        self._sum = f"{name}_sum{_labels(labels)} "

    def observe(self, value: float, times: int = 1) -> None:
        """Count `value`, `times` over. A value on a bound belongs below it (`le`)."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def observe_series(self, first: float, growth: float, length: int, times: int) -> None:
        """Count `first + i*growth` for i in 0..length-1, each `times` over, without visiting every term.

        `growth` is >= 0, so the terms are sorted and each bucket is an interval of i.
        """
        last = first + growth * (length - 1)
        low, high = bisect_left(self.bounds, first), bisect_left(self.bounds, last)
        done = 0
        for bucket in range(low, high):
            inside = max(done, min(int((self.bounds[bucket] - first) / growth) + 1, length))
            self.counts[bucket] += (inside - done) * times
            done = inside
        self.counts[high] += (length - done) * times
        self.sum += times * length * (first + last) / 2

    def render(self, lines: list[str]) -> None:
        """Append the family."""
        lines.append(self._head)
        total = 0
        for prefix, total in zip(self._buckets, accumulate(self.counts), strict=True):
            lines.append(f"{prefix}{float(total)!r}")
        lines.append(f"{self._count}{float(total)!r}")
        lines.append(f"{self._sum}{float(self.sum)!r}")


Instrument = Scalar | LabelledCounter | States | Histogram


def render(instruments: Sequence[Instrument]) -> bytes:
    """The whole metrics page."""
    lines: list[str] = []
    for instrument in instruments:
        instrument.render(lines)
    lines.append("")
    return "\n".join(lines).encode()
