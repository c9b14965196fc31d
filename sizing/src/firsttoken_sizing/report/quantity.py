"""Quantities that the axes of a curve may show, and their value at one operating point.

The names are those of `--x` and `--y` (docs/design/api.md). Rates are requests a second of a replica or of its GPUs,
tokens are output tokens. A latency is the statistic that is asked for; what is formed from two latencies uses their
means.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from firsttoken_sizing.profile import Latency, Point
from firsttoken_sizing.report.cells import LATENCIES, word
from firsttoken_sizing.workload import Limit, Percentile, Sla

_GPUS_OF_A_SERVER = 8


class Quantity(StrEnum):
    """One axis. The latencies come first, in the order in which a limited one is preferred."""

    TTFT = "ttft"
    ITL = "itl"
    E2E = "e2e"
    CONCURRENCY = "concurrency"
    REQUESTS = "rps"
    REQUESTS_PER_GPU = "rps-per-gpu"
    REQUESTS_PER_8_GPUS = "rps-per-8-gpus"
    TOKENS = "tokens"
    TOKENS_PER_GPU = "tokens-per-gpu"
    TOKENS_PER_USER = "tokens-per-user"
    TTFT_RATIO = "ttft-ratio"
    QUEUEING = "queueing"

    @property
    def is_latency(self) -> bool:
        """True for each of the three latencies, of which a statistic is chosen and which an SLA may limit."""
        return self in _LATENCIES

    def title(self, percentile: Percentile = Percentile.MEAN) -> str:
        """The title of the axis with its unit."""
        if not self.is_latency:
            return _TITLES[self]
        return f"{_TITLES[self]}, {word(percentile)} (ms)"

    def limit(self, sla: Sla) -> Limit | None:
        """The limit that the SLA sets to it."""
        found: Limit | None = getattr(sla, _LATENCIES[self][1]) if self.is_latency else None
        return found


_LATENCIES = {Quantity(metric.lower()): (field, limit) for metric, field, limit in LATENCIES}
"""Their fields: in a point, and of the limit in an SLA."""
_TITLES = {
    Quantity.ITL: "ITL",
    Quantity.TTFT: "TTFT",
    Quantity.E2E: "End-to-end latency",
    Quantity.CONCURRENCY: "Requests in one replica",
    Quantity.REQUESTS: "Requests/s of one replica",
    Quantity.REQUESTS_PER_GPU: "Requests/s a GPU",
    Quantity.REQUESTS_PER_8_GPUS: f"Requests/s of {_GPUS_OF_A_SERVER} GPUs",
    Quantity.TOKENS: "Output tokens/s of one replica",
    Quantity.TOKENS_PER_GPU: "Output tokens/s a GPU",
    Quantity.TOKENS_PER_USER: "Output tokens/s that one user sees (1 / mean ITL)",
    Quantity.TTFT_RATIO: "TTFT / end-to-end latency (means)",
    Quantity.QUEUEING: "TTFT / TTFT of one request alone (means)",
}


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """Facts that turn a point of one replica into any quantity."""

    gpus: int
    output_tokens: float
    ttft_alone_milliseconds: float | None
    """Mean TTFT of one request on an idle replica; None where it is not known."""

    def value(self, quantity: Quantity, point: Point, percentile: Percentile = Percentile.MEAN) -> float | None:
        """The quantity at a point; None where what it takes is not known."""
        if quantity.is_latency:
            latency: Latency = getattr(point, _LATENCIES[quantity][0])
            return latency.at(percentile)
        rate, ttft = point.requests_per_second, point.ttft.mean
        match quantity:
            case Quantity.CONCURRENCY:
                return point.concurrency
            case Quantity.REQUESTS:
                return rate
            case Quantity.REQUESTS_PER_GPU:
                return rate / self.gpus
            case Quantity.REQUESTS_PER_8_GPUS:
                return rate / self.gpus * _GPUS_OF_A_SERVER
            case Quantity.TOKENS:
                return rate * self.output_tokens
            case Quantity.TOKENS_PER_GPU:
                return rate * self.output_tokens / self.gpus
            case Quantity.TOKENS_PER_USER:
                return _share(1000.0, point.itl.mean)
            case Quantity.TTFT_RATIO:
                return _share(ttft, point.end_to_end.mean)
            case _:
                return _share(ttft, self.ttft_alone_milliseconds)


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
