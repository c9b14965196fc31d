"""Time to first token as far as a histogram tells it."""

from __future__ import annotations

from dataclasses import dataclass

from firsttoken_operator.domain.measurement import LARGEST_VALUE


@dataclass(frozen=True, slots=True)
class LateShare:
    """Share of first tokens that came after the TTFT limit, 0..1: certainly `low` to `high`, most likely `estimate`.

    The three are equal where the limit is the bound of a bucket.
    """

    low: float
    estimate: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.estimate <= self.high <= 1:
            raise ValueError(f"0 <= low <= estimate <= high <= 1, not {self.low}, {self.estimate}, {self.high}")


@dataclass(frozen=True, slots=True)
class TtftInterval:
    """The SLA's percentile of TTFT as far as the buckets tell: somewhere in [low, high] milliseconds.

    `high` is None in the last bucket. `requests` is how many requests of the window it stands on. `late` is None where
    there is no limit on a percentile of TTFT.
    """

    low_milliseconds: float
    high_milliseconds: float | None
    mean_milliseconds: float
    requests: float
    late: LateShare | None = None

    def __post_init__(self) -> None:
        numbers = (self.low_milliseconds, self.mean_milliseconds, self.requests)
        if not all(0 <= number <= LARGEST_VALUE for number in numbers):
            raise ValueError(f"low, mean and requests are in [0, {LARGEST_VALUE:g}], not {numbers}")
