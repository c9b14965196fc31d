"""Measured points of one configuration: what a benchmark said, in one form for every tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from firsttoken_sizing.declared import AS_INSTALLED, DeclaredSettings
from firsttoken_sizing.workload import Percentile

STATISTICS = tuple(percentile.key for percentile in Percentile)
"""Names of the fields of `Latency`, in their order."""
MIXED_UNITS_FACTOR = 20.0
"""Factor by which throughput x latency may miss the concurrency before units are suspected: they are off by 1000 or
more, and a window 20 times shorter than its own queue has measured next to nothing."""
OVERLOAD_RATIO = 0.9
"""Share of Little's law below which a window was shorter than the queue that it measured: its throughput is right, its
latencies are not (docs/design/sizing.md)."""


class Load(StrEnum):
    """Load pattern of a benchmark."""

    CLOSED_LOOP = "ClosedLoop"
    POISSON = "Poisson"


@dataclass(frozen=True, slots=True)
class Latency:
    """Statistics of one latency in milliseconds, as far as they were reported."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None

    def at(self, percentile: Percentile) -> float | None:
        """The statistic that a limit is about, or None where it was not reported (never a silent mean)."""
        value: float | None = getattr(self, percentile.key)
        return value

    def combined(self, others: Sequence[Latency], combine: Combine) -> Latency:
        """Each statistic from those of this latency and the others, None for one that was not reported."""
        return Latency(*(combine([getattr(latency, name) for latency in (self, *others)]) for name in STATISTICS))


Combine = Callable[[Sequence[float | None]], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """The three latencies that an SLA may limit: what a point, a row of a table, a sizing and a simulation report."""

    ttft: Latency = Latency()
    itl: Latency = Latency()
    end_to_end: Latency = Latency()

    def combined(self, others: Sequence[Latencies], combine: Combine) -> Self:
        """The same with each statistic from those of these latencies and the others."""
        return replace(
            self,
            ttft=self.ttft.combined([other.ttft for other in others], combine),
            itl=self.itl.combined([other.itl for other in others], combine),
            end_to_end=self.end_to_end.combined([other.end_to_end for other in others], combine),
        )


@dataclass(frozen=True, slots=True)
class Point(Latencies):
    """One measured operating point of one replica.

    `requests_per_second` is what completed. `concurrency` is set for a closed loop, `offered_requests_per_second` for
    an open one.
    """

    requests_per_second: float
    concurrency: float | None = None
    offered_requests_per_second: float | None = None

    def completed(self, output_tokens: float) -> Point:
        """Fill in what follows from the rest: `E2E = TTFT + ITL * (OSL - 1)`, concurrency by Little's law."""
        total, concurrency = self.end_to_end, self.concurrency
        if total.mean is None and self.ttft.mean is not None and self.itl.mean is not None:
            total = replace(total, mean=self.ttft.mean + self.itl.mean * max(0.0, output_tokens - 1))
        if concurrency is None and total.mean is not None:
            concurrency = self.requests_per_second * total.mean / 1000
        return replace(self, end_to_end=total, concurrency=concurrency)

    @property
    def little_ratio(self) -> float | None:
        """Throughput x latency / concurrency, 1 by Little's law in a closed loop; None where one is not known."""
        if self.concurrency is None or self.end_to_end.mean is None:
            return None
        return self.requests_per_second * self.end_to_end.mean / 1000 / self.concurrency

    @property
    def is_overload(self) -> bool:
        """True where the window was shorter than its own queue."""
        return self.little_ratio is not None and self.little_ratio < OVERLOAD_RATIO


@dataclass(frozen=True, slots=True)
class ConfigurationKey:
    """Identity of a replica: everything that its step times depend on except the workload."""

    model: str
    gpu: str
    precision: str
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    attention_data_parallel: int = 1
    """Groups of its tensor-parallel GPUs, each of which does the attention of its own requests and holds their KV
    cache, while experts are spread over all of them. 1: all GPUs share every request."""

    @property
    def attention_ways(self) -> int:
        """GPUs that share the attention of a request."""
        return self.tensor_parallel // self.attention_data_parallel

    @property
    def gpus_per_replica(self) -> int:
        """GPUs that one replica occupies."""
        return self.tensor_parallel * self.pipeline_parallel


@dataclass(frozen=True, slots=True)
class Profile:
    """A named set of measured points: one configuration, one pair of lengths, one kind of load."""

    name: str
    key: ConfigurationKey
    input_tokens: float
    output_tokens: float
    load: Load
    points: tuple[Point, ...]
    engine: str = ""
    engine_version: str = ""
    source: str = ""
    settings: DeclaredSettings = AS_INSTALLED
    """Those of the engine that it was measured with."""
