"""Score of a policy: the share of requests inside the SLA, counted one by one, and the GPU-hours that it took."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firsttoken_lab.replay.play import Played
from firsttoken_sizing.workload import Limit, Percentile, Sla

WINDOW_SECONDS = 300.0
HOUR_SECONDS = 3600.0
POOR_PERCENT = 95.0
_FEWEST_IN_AN_HOUR = 20
"""An hour with fewer requests is no worst hour: one miss would be 5 %."""
_TARGET_OF_A_MEAN = 0.95


@dataclass(frozen=True, slots=True)
class Score:
    """Attainment in percent of the requests, of 5-minute windows, and of the worst hour; GPU-hours; scale events."""

    policy: str
    requests: int
    attainment_percent: float
    worst_hour_attainment_percent: float
    windows_under_95_percent: float
    gpu_hours: float
    scale_events: int
    standby_gpu_hours: float = 0.0
    """Those of the GPU-hours in which a replica was on standby."""


def score(played: Played, sla: Sla, gpus_per_replica: int, from_seconds: float = 0.0) -> Score:
    """Judge every request that arrived at `from_seconds` or later, and the GPU time since then."""
    counted = played.arrival_seconds >= from_seconds
    arrival, inside = played.arrival_seconds[counted], inside_sla(played, sla)[counted]
    hours = shares(arrival, inside, HOUR_SECONDS, _FEWEST_IN_AN_HOUR)
    windows = shares(arrival, inside, WINDOW_SECONDS, 1)
    overall = 100 * float(inside.mean())
    trajectory, asleep = played.trajectory, played.trajectory.standby_seconds
    before = float(np.interp(from_seconds, trajectory.at_seconds, trajectory.replica_seconds))
    return Score(
        policy=played.policy,
        requests=len(inside),
        attainment_percent=overall,
        worst_hour_attainment_percent=100 * float(np.nanmin(hours)) if not np.isnan(hours).all() else overall,
        windows_under_95_percent=100 * float((100 * windows[~np.isnan(windows)] < POOR_PERCENT).mean()),
        gpu_hours=(played.replica_seconds - before) * gpus_per_replica / HOUR_SECONDS,
        scale_events=sum(at >= from_seconds for at, _ in played.changes[1:]),
        standby_gpu_hours=float(asleep[-1] - np.interp(from_seconds, trajectory.at_seconds, asleep))
        * gpus_per_replica
        / HOUR_SECONDS,
    )


def target_percent(sla: Sla) -> float:
    """The attainment that the SLA asks for: the highest percentile of its limits; 95 where all are on the mean."""
    limits = (sla.time_to_first_token, sla.inter_token_latency, sla.end_to_end)
    asked = [share for limit in limits if limit and (share := limit.percentile.share) is not None]
    return 100 * max(asked, default=_TARGET_OF_A_MEAN)


def inside_sla(played: Played, sla: Sla) -> NDArray[np.bool_]:
    """Mark the requests that were inside every limit.

    A limit on the mean is no property of one request: all of a 5-minute window are inside it where their mean is.
    """
    steps = np.maximum(played.output_tokens - 1, 1)
    itl = (played.end_to_end_seconds - played.ttft_seconds) / steps
    inside = np.isfinite(played.ttft_seconds)
    for limit, seconds in (
        (sla.time_to_first_token, played.ttft_seconds),
        (sla.inter_token_latency, itl),
        (sla.end_to_end, played.end_to_end_seconds),
    ):
        if limit is not None:
            inside &= _kept(limit, seconds, played.arrival_seconds)
    return inside


def shares(
    arrival_seconds: NDArray[np.float64], good: NDArray[np.bool_], width_seconds: float, fewest: int
) -> NDArray[np.float64]:
    """Share of good requests in every window since 0, one after the other; NaN: it has fewer than `fewest` requests."""
    window = (arrival_seconds // width_seconds).astype(np.int64)
    total = np.bincount(window)
    with np.errstate(invalid="ignore"):
        share: NDArray[np.float64] = np.bincount(window, weights=good) / total
    return np.where(total >= fewest, share, np.nan)


def _kept(limit: Limit, seconds: NDArray[np.float64], arrival_seconds: NDArray[np.float64]) -> NDArray[np.bool_]:
    if limit.percentile is not Percentile.MEAN:
        kept: NDArray[np.bool_] = 1000 * seconds <= limit.milliseconds
        return kept
    window = (arrival_seconds // WINDOW_SECONDS).astype(np.int64)
    answered = np.isfinite(seconds)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(window, weights=np.where(answered, seconds, 0.0)) / np.bincount(window, weights=answered)
    within: NDArray[np.bool_] = (1000 * mean <= limit.milliseconds)[window]
    return within
