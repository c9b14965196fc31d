"""Which measured runs may be believed: checks that hold for every closed-loop benchmark, whatever tool wrote it.

A run that fails is reported with its reason, never dropped in silence and never corrected.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from firsttoken_sizing.benchmarks.runs import Run
from firsttoken_sizing.profile import Load

OVERLOAD_RATIO = 0.9
"""Below this share of Little's law a window was shorter than the queue that it measured (docs/design/sizing.md)."""
LATENCY_TOLERANCE = 0.25
"""How far TTFT and token gaps may miss the end-to-end latency: means of ratios differ a little, wrong units by 1000."""


def objection(run: Run) -> str | None:
    """Why a run must not be used, or None."""
    return next((reason for check in _CHECKS if (reason := check(run)) is not None), None)


def _overloaded(run: Run) -> str | None:
    """Little's law: requests in flight = throughput x latency, and a closed loop keeps all of them in flight."""
    concurrency, latency_ms = run.point.concurrency, run.point.end_to_end.mean
    if run.load is not Load.CLOSED_LOOP or concurrency is None or latency_ms is None:
        return None
    ratio = run.point.requests_per_second * latency_ms / 1000 / concurrency
    if ratio >= OVERLOAD_RATIO:
        return None
    return (
        f"overload window: throughput x latency / concurrency is {ratio:.2f}, below {OVERLOAD_RATIO} "
        f"(measured at concurrency {concurrency:g} for a shorter time than requests waited)"
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


_CHECKS: tuple[Callable[[Run], str | None], ...] = (_percentiles_fall, _latencies_disagree, _overloaded)
