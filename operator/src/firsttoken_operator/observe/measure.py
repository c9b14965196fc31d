"""Live metrics of one resource from what its pods said: typed, with the reason where something is not known. Pure.

Nothing that is missing, stale, NaN, infinite, negative or partial ever reads as zero. What is known of a part of the
pods comes through as a lower bound with coverage < 1: it may raise replicas and never lowers them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from firsttoken_operator.domain import MAXIMUM_ERROR_SHARE, Idle, Metrics, Missing, Reason, Value
from firsttoken_operator.families import Signal
from firsttoken_operator.observe.collect import SourceReading
from firsttoken_operator.observe.diagnosis import (
    about_families,
    about_numbers,
    about_pods,
    about_queries,
    about_ttft,
    families_of,
    worst,
)
from firsttoken_operator.observe.freshness import LivePod, MeasureSettings, SeenPod, Trust, look_at
from firsttoken_operator.observe.models import of_one_model
from firsttoken_operator.observe.shortcomings import shortcomings
from firsttoken_operator.observe.sums import Sums, publishes
from firsttoken_operator.observe.ttft import interval, largest_layout
from firsttoken_sizing.workload import Limit


def measure(
    reading: SourceReading,
    pods: Iterable[LivePod],
    limit: Limit | None,
    settings: MeasureSettings,
    model: str = "",
) -> Metrics:
    """Live metrics of the resource whose live owner chain holds `pods`.

    `limit` is on TTFT, None: the SLA has none. `model` is the one whose requests count, where a server has several.
    """
    pods = tuple(pods)
    if overflowing := {pod.namespace for pod in pods} & reading.overflowing:
        text = f"the pods of namespace {', '.join(overflowing)} expose more series than are read"
        return nothing(Missing(Reason.TOO_MANY_SERIES, text), settings.window_seconds)
    seen, about_models = of_one_model(look_at(reading, pods, settings), model)
    current = [pod for pod in seen if pod.current]
    # Queries first: a source that is down is named before the pods that it did not show.
    findings = [*about_queries(reading, seen), *about_pods(seen, reading, settings)]
    if not current:
        why = worst(findings)
        return nothing(Missing(why.cause, why.text), settings.window_seconds, health=why.health)

    warned = any(finding.cause is Reason.PARTIAL_RESPONSE for finding in findings)
    sums = Sums(seen, settings.config.partial_coverage if warned else 1.0)
    layout, layouts = largest_layout(pod.sample for pod in current)
    findings += [*about_models, *about_families(current), *about_ttft(current, layouts)]
    arrivals, waiting, running = sums.arrivals(), sums.gauge(Signal.WAITING), sums.gauge(Signal.RUNNING)
    # NB: a limit that changed while the source answered has other buckets, of which nothing was said.
    judged = reading.tells_late(limit, (pod.key for pod in current))
    ttft = interval(layout, limit, settings.window_seconds, settings.config.first_token) if layout else None
    told = {"arrivals": arrivals, "waiting": waiting, "running": running}
    if not any(publishes(pod, Signal.RUNNING) for pod in current):
        del told["running"]
    findings += about_numbers(sums, told)
    idle = not findings and _proven_idle(seen)
    error_share = Idle() if idle else sums.error_share()
    if findings:
        decisive = worst(findings)
        health, detail = decisive.health, decisive.detail
    elif isinstance(error_share, Value) and error_share.value > MAXIMUM_ERROR_SHARE:
        # The numbers are good, what they count is not: latencies of requests that fail early look fine.
        health, detail = Reason.ERRORS_PRESENT, f"{100 * error_share.value:.1f} % of the requests fail"
    else:
        health = Reason.IDLE if idle else Reason.PRESENT
        detail = f"{len(current)} pods: {families_of(current)}"
    return Metrics(
        health=health,
        detail=detail,
        arrivals=Idle() if idle else arrivals,
        first_tokens=Idle() if idle else sums.first_tokens(),
        waiting=waiting,
        running=running,
        error_share=error_share,
        kv_percent=sums.kv_percent(),
        ttft=ttft if judged or ttft is None else replace(ttft, late=None),
        window_seconds=settings.window_seconds,
        input_tokens=Idle() if idle else sums.input_tokens(),
        output_tokens=Idle() if idle else sums.output_tokens(),
        overdue=any(pod.overdue for pod in seen if pod.required),
        family=families_of(current),
        shortcomings=tuple(shortcomings(current, layout, reading, limit)),
        under_way=_under_way(current),
    )


def nothing(why: Missing, window_seconds: float, health: Reason = Reason.MISSING) -> Metrics:
    """Metrics of which nothing is known."""
    return Metrics(
        health=health, detail=f"{why.reason}: {why.detail}", arrivals=why, first_tokens=why, waiting=why, running=why,
        error_share=why, kv_percent=why, ttft=None, window_seconds=window_seconds, input_tokens=why, output_tokens=why,
    )  # fmt: skip


def _under_way(current: Sequence[SeenPod]) -> dict[str, float]:
    """Requests that run or wait, by pod: of those that tell what runs."""
    values = ((pod.pod.name, pod.sample.values) for pod in current)
    told = ((name, said.get(Signal.RUNNING, math.nan) + said.get(Signal.WAITING, 0.0)) for name, said in values)
    return {name: requests for name, requests in told if requests >= 0}


def _proven_idle(seen: Sequence[SeenPod]) -> bool:
    """Every ready pod was scraped for a whole window, is up, and no counter moved; nothing runs or waits anywhere."""
    return all(pod.up and pod.trust is Trust.COMPLETE for pod in seen if pod.ready) and all(
        _is_still(pod) for pod in seen if pod.current
    )


def _is_still(pod: SeenPod) -> bool:
    sample = pod.sample
    counted = (sample.values.get(Signal.STARTED), sample.values.get(Signal.FIRST_TOKENS), sample.ended_rate)
    counters = [rate for rate in counted if rate is not None]
    gauges = [sample.values.get(gauge) for gauge in (Signal.WAITING, Signal.RUNNING) if publishes(pod, gauge)]
    return bool(counters) and all(value == 0 for value in (*counters, *gauges))
