"""Validation of measured runs: checks that hold for every benchmark, whatever tool wrote it.

A run that fails is reported with its reason, never dropped in silence and never corrected.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from firsttoken_sizing.benchmarks.runs import Run
from firsttoken_sizing.profile import MIXED_UNITS_FACTOR, OVERLOAD_RATIO, Load

COMPLETED_SHARE = 0.9
"""Share of the offered rate below which a queue grew to the end of the run, and latencies depend on its length."""
FAILED_SHARE = 0.05
"""Share of failures above which the figures are those of the requests that the server was left with."""
LATENCY_TOLERANCE = 0.25
"""Tolerance of TTFT and token gaps to the end-to-end latency: means of ratios differ a bit, wrong units by 1000."""
LEAST_TTFT_SHARE = 0.25
"""Share of ITL: a first token takes a step of its own, and in 5,500 points of four public data sets it took at least
1.15 times as long as a gap between later ones. Wrong units are off by 1000, which the end-to-end latency may hide."""
MOST_MEAN_OVER_P99 = 10.0
"""Ratio beyond which one request in a hundred would take nine tenths of all the time."""


def rejection(run: Run) -> str | None:
    """Reason why a run must not be used, or None."""
    return next((reason for check in _CHECKS if (reason := check(run)) is not None), None)


def remarks(run: Run) -> tuple[str, ...]:
    """Remarks on a run that is used: what its reader left out of it, and failures that are few."""
    if not run.failed:
        return run.remarks
    return (*run.remarks, f"{run.failed:g} of {_sent(run):g} requests failed; the figures are of the others")


def _failed(run: Run) -> str | None:
    """Failed requests take no time of the server, so that those that succeed are faster than under the whole load."""
    if not run.failed or run.failed <= FAILED_SHARE * _sent(run):
        return None
    return f"{run.failed:g} of {_sent(run):g} requests failed, more than {FAILED_SHARE:.0%}"


def _sent(run: Run) -> float:
    return (run.succeeded or 0.0) + (run.failed or 0.0)


def _breaks_littles_law(run: Run) -> str | None:
    """Little's law: requests in flight = throughput x latency, and a closed loop keeps all of them in flight."""
    point = run.point.completed(run.output_tokens)
    ratio = point.little_ratio
    if run.load is not Load.CLOSED_LOOP or ratio is None:
        return None
    factor = max(ratio, 1 / ratio)
    if factor > MIXED_UNITS_FACTOR:
        return (
            f"latencies do not fit the throughput (mixed units?): for {point.requests_per_second:.4g} requests/s at "
            f"concurrency {point.concurrency:g}, {point.end_to_end.mean:.4g} ms end to end is about "
            f"{float(f'{factor:.2g}'):,.0f} times too {'short' if ratio < 1 else 'long'}; check that the times are in "
            f"{run.times}"
        )
    if not point.is_overload:
        return None
    return (
        f"overload window: throughput x latency / concurrency is {ratio:.2f}, below {OVERLOAD_RATIO} "
        f"(measured at concurrency {point.concurrency:g} for a shorter time than requests waited)"
    )


def _falls_behind(run: Run) -> str | None:
    """Open-loop arrivals do not wait for the server: what it does not complete, it queues."""
    offered, completed = run.point.offered_requests_per_second, run.point.requests_per_second
    if offered is None or completed >= COMPLETED_SHARE * offered:
        return None
    return (
        f"overload: {completed:g} of {offered:g} requests/s were completed, below {COMPLETED_SHARE} of them "
        "(more than the replica can serve, or a run too short for its latency)"
    )


def _latencies_disagree(run: Run) -> str | None:
    """`E2E = TTFT + ITL x (output tokens - 1)`: the definition of ITL (docs/design/sizing.md)."""
    ttft, itl, end_to_end = (run.point.ttft.mean, run.point.itl.mean, run.point.end_to_end.mean)
    if ttft is None or itl is None or end_to_end is None:
        return None
    expected = ttft + itl * max(0.0, run.output_tokens - 1)
    if abs(expected - end_to_end) <= LATENCY_TOLERANCE * end_to_end:
        return None
    return (
        f"latencies disagree (mixed units?): TTFT {ttft:.4g} ms + ITL {itl:.4g} ms x {run.output_tokens - 1:.4g} "
        f"tokens is {expected:.4g} ms, end to end is {end_to_end:.4g} ms"
    )


def _percentiles_fall(run: Run) -> str | None:
    """A higher percentile is never below a lower one."""
    for name, latency in (("TTFT", run.point.ttft), ("ITL", run.point.itl), ("end to end", run.point.end_to_end)):
        known = [value for value in (latency.p50, latency.p90, latency.p95, latency.p99) if value is not None]
        if any(higher < lower for lower, higher in pairwise(known)):
            return (
                f"{name} has a higher percentile below a lower one ({', '.join(f'{value:.4g}' for value in known)} ms)"
            )
    return None


def _first_token_before_a_step(run: Run) -> str | None:
    ttft, itl = run.point.ttft.mean, run.point.itl.mean
    if ttft is None or itl is None or ttft >= LEAST_TTFT_SHARE * itl:
        return None
    return f"TTFT {ttft:.4g} ms is shorter than one step of {itl:.4g} ms (mixed units?)"


def _means_disagree_with_percentiles(run: Run) -> str | None:
    """A percentile of times is at most `mean / (1 - p)` (Markov's inequality), and P99 not far below the mean."""
    for name, latency in (("TTFT", run.point.ttft), ("ITL", run.point.itl), ("end to end", run.point.end_to_end)):
        if latency.mean is None:
            continue
        for percentile, share in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
            value = getattr(latency, percentile)
            too_high = value is not None and value * (1 - share) > 1.01 * latency.mean
            too_low = value is not None and share >= 0.95 and MOST_MEAN_OVER_P99 * value < latency.mean
            if too_high or too_low:
                return (
                    f"{name} has a mean of {latency.mean:.4g} ms and a {percentile.upper()} of {value:.4g} ms, which "
                    "cannot be of the same requests (mixed units?)"
                )
    return None


_CHECKS: tuple[Callable[[Run], str | None], ...] = (
    _failed,
    _percentiles_fall,
    _means_disagree_with_percentiles,
    _first_token_before_a_step,
    _latencies_disagree,
    _breaks_littles_law,
    _falls_behind,
)
