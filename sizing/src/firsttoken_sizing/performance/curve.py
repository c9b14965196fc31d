"""Curve of operating points as the monotone table that the operator reads.

Both load models end here: points of a closed loop by concurrency, or of Poisson traffic by rate. Measured curves are
not always monotone; the table is their running envelope, so that more load never looks better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.table import CapacityTable
from firsttoken_sizing.profile import STATISTICS, Latency, Point
from firsttoken_sizing.rounding import NOISE


def capacity_table(
    points: Sequence[Point],
    *,
    capacity: float,
    saturation: float,
    lengths: Lengths,
    kv_cache_tokens: int | None,
) -> CapacityTable:
    """The table of at least one point. `capacity`, `saturation`: requests a second of one replica.

    `kv_cache_tokens` is what a replica holds (None: not known, KV use is then NaN). A column in which no point has a
    value is NaN.
    """
    ordered: list[Point] = []
    for point in sorted(points, key=lambda p: p.requests_per_second):
        if not ordered or point.requests_per_second > ordered[-1].requests_per_second * (1 + NOISE):
            ordered.append(point)
    return CapacityTable(
        rates=np.array([p.requests_per_second for p in ordered]),
        ttft=_columns([p.ttft for p in ordered]),
        itl=_columns([p.itl for p in ordered]),
        end_to_end=_columns([p.end_to_end for p in ordered]),
        kv_percent=np.maximum.accumulate([_kv_percent(p, lengths, kv_cache_tokens) for p in ordered]),
        capacity_requests_per_second=capacity,
        saturation_requests_per_second=saturation,
    )


def _columns(latencies: Sequence[Latency]) -> NDArray[np.float64]:
    rows = [[getattr(latency, s) for s in STATISTICS] for latency in latencies]
    columns = np.array([[math.nan if v is None else v for v in row] for row in rows])
    # NB: fmax keeps what is known; with maximum one missing value would blank the rest of its column.
    columns = np.fmax.accumulate(columns, axis=0)
    columns[:, 1:] = np.where(np.isnan(columns[:, 1:]), np.nan, np.fmax.accumulate(columns[:, 1:], axis=1))
    return columns


def _kv_percent(point: Point, lengths: Lengths, kv_cache_tokens: int | None) -> float:
    if not kv_cache_tokens or point.concurrency is None:
        return math.nan
    return min(100.0, 100 * point.concurrency * lengths.running_context_tokens / kv_cache_tokens)
