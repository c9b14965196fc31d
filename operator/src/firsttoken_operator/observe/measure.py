"""Live metrics of one resource from what its pods said: typed, with the reason where something is not known. Pure.

Nothing that is missing, stale, NaN, infinite, negative or partial ever reads as zero. What is known of a part of the
pods comes through as a lower bound with coverage < 1: it may raise replicas and never lowers them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from firsttoken_operator.domain import MAXIMUM_ERROR_SHARE, Idle, Measurement, Metrics, Missing, Reason, Value
from firsttoken_operator.families import DETECTION, SUPPLEMENTS, Signal
from firsttoken_operator.observe.collect import PodSample, SourceReading
from firsttoken_operator.observe.freshness import LivePod, MeasureSettings, SeenPod, Trust, look_at
from firsttoken_operator.observe.sums import Sums
from firsttoken_operator.observe.ttft import interval, largest_layout
from firsttoken_sizing.workload import Limit

NAMES_SHOWN = 3

SEVERITY = (Reason.MISSING, Reason.STALE, Reason.PARTIAL, Reason.RECOVERING)
"""Worst first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with the data: how bad (one of `SEVERITY`), why, and in words."""

    health: Reason
    cause: Reason
    text: str

    @property
    def detail(self) -> str:
        """The cause and the words."""
        return f"{self.cause}: {self.text}"


def measure(reading: SourceReading, pods: Iterable[LivePod], limit: Limit | None, settings: MeasureSettings) -> Metrics:
    """Live metrics of the resource whose live owner chain holds `pods`; `limit`: on TTFT, None: the SLA has none."""
    pods = tuple(pods)
    if overflowing := {pod.namespace for pod in pods} & reading.overflowing:
        text = f"the pods of namespace {', '.join(overflowing)} expose more series than are read"
        return nothing(Missing(Reason.TOO_MANY_SERIES, text), settings.window_seconds)
    seen = look_at(reading, pods, settings)
    current = [pod for pod in seen if pod.current]
    # Queries first: a source that is down is named before the pods that it did not show.
    findings = [*_about_queries(reading, seen), *_about_pods(seen)]
    if not current:
        why = _worst(findings)
        return nothing(Missing(why.cause, why.text), settings.window_seconds, health=why.health)

    warned = any(finding.cause is Reason.PARTIAL_RESPONSE for finding in findings)
    sums = Sums(seen, settings.config.partial_coverage if warned else 1.0)
    layout, layouts = largest_layout(pod.sample for pod in current)
    if layouts > 1:
        findings.append(Finding(Reason.PARTIAL, Reason.PARTIAL, f"{layouts} TTFT bucket layouts, the largest is read"))
    arrivals, waiting, running = sums.arrivals(), sums.gauge(Signal.WAITING), sums.gauge(Signal.RUNNING)
    findings += _about_numbers(sums, {"arrivals": arrivals, "waiting": waiting, "running": running})
    idle = not findings and _proven_idle(seen)
    error_share = Idle() if idle else sums.error_share()
    if findings:
        worst = _worst(findings)
        health, detail = worst.health, worst.detail
    elif isinstance(error_share, Value) and error_share.value > MAXIMUM_ERROR_SHARE:
        # The numbers are good, what they count is not: latencies of requests that fail early look fine.
        health, detail = Reason.ERRORS_PRESENT, f"{100 * error_share.value:.1f} % of the requests fail"
    else:
        health = Reason.IDLE if idle else Reason.PRESENT
        detail = f"{len(current)} pods: {_families(current)}"
    return Metrics(
        health=health,
        detail=detail,
        arrivals=Idle() if idle else arrivals,
        first_tokens=Idle() if idle else sums.first_tokens(),
        waiting=waiting,
        running=running,
        error_share=error_share,
        kv_percent=sums.kv_percent(),
        ttft=interval(layout, limit, settings.window_seconds, settings.config.first_token) if layout else None,
        window_seconds=settings.window_seconds,
        input_tokens=Idle() if idle else _as_answered(sums.input_tokens(), reading, current, settings),
        output_tokens=Idle() if idle else _as_answered(sums.output_tokens(), reading, current, settings),
        overdue=any(pod.overdue for pod in seen if pod.required),
    )


def nothing(why: Missing, window_seconds: float, health: Reason = Reason.MISSING) -> Metrics:
    """Metrics of which nothing is known."""
    return Metrics(
        health=health, detail=f"{why.reason}: {why.detail}", arrivals=why, first_tokens=why, waiting=why, running=why,
        error_share=why, kv_percent=why, ttft=None, window_seconds=window_seconds, input_tokens=why, output_tokens=why,
    )  # fmt: skip


def _about_pods(seen: Sequence[SeenPod]) -> list[Finding]:
    """Find what the freshness of the pods alone says."""
    required = [pod for pod in seen if pod.required]
    if not any(pod.ready for pod in seen):
        return [Finding(Reason.MISSING, Reason.NO_READY_PODS, f"none of {len(seen)} pods is ready")]
    if not required:
        text = "every ready pod is younger than one rate window"
        if any(pod.current for pod in seen):
            return [Finding(Reason.PARTIAL, Reason.NOT_ENOUGH_SAMPLES, text)]
        return [Finding(Reason.MISSING, Reason.NO_SERIES, text)]
    lost = [pod for pod in required if pod.trust is Trust.LOST]
    stale = [pod for pod in required if pod.trust is Trust.STALE]
    short = [pod for pod in required if pod.trust is Trust.SHORT]
    many = len(required)
    findings = []
    if len(lost) + len(stale) == many:
        if stale:
            findings.append(Finding(Reason.STALE, Reason.STALE, f"no current sample of {many} ready pods"))
        else:
            findings.append(Finding(Reason.MISSING, Reason.NO_SERIES, f"no series of {many} ready pods"))
    elif lost or stale:
        text = f"{len(lost) + len(stale)} of {many} ready pods without current samples: {_names([*lost, *stale])}"
        findings.append(Finding(Reason.PARTIAL, Reason.NO_SERIES if lost else Reason.STALE, text))
    if short:
        text = f"the rate window of {len(short)} of {many} ready pods is not filled yet"
        findings.append(Finding(Reason.RECOVERING, Reason.NOT_ENOUGH_SAMPLES, text))
    return findings


def _about_queries(reading: SourceReading, seen: Sequence[SeenPod]) -> list[Finding]:
    """Find what failed queries mean for these pods: nothing at all known, or something missing."""
    families = {pod.sample.family for pod in seen if pod.current}
    complete = all(pod.current for pod in seen if pod.required)
    findings = []
    for failure in reading.failures:
        if failure.signal in SUPPLEMENTS:
            continue
        if failure.hides_pods and not families:
            health = Reason.MISSING
        elif (failure.hides_pods and not complete) or failure.family in families or failure.family == "":
            health = Reason.PARTIAL
        else:
            continue
        # The queries that find the pods are about all figures; another one is named by what it asks for.
        figure = "" if failure.signal in (*DETECTION, "up") else f"{failure.signal}: "
        findings.append(Finding(health, failure.reason, figure + failure.detail))
    return findings


def _about_numbers(sums: Sums, measurements: dict[str, Measurement]) -> list[Finding]:
    """Find what the sums themselves say: unknown, or known of fewer pods than could have said it."""
    findings = []
    for name, measurement in measurements.items():
        if isinstance(measurement, Missing):
            findings.append(Finding(Reason.MISSING, measurement.reason, f"{name}: {measurement.detail}"))
        elif isinstance(measurement, Value) and measurement.coverage < sums.possible_coverage:
            text = f"{name}: unknown for some of the ready pods"
            findings.append(Finding(Reason.PARTIAL, sums.doubts[-1] if sums.doubts else Reason.PARTIAL, text))
    return findings


def _as_answered(
    mean: Measurement, reading: SourceReading, current: Sequence[SeenPod], settings: MeasureSettings
) -> Measurement:
    """A mean of tokens with what is wrong with its query, which is no finding about the other data."""
    families = {pod.sample.family for pod in current}
    for failure in reading.failures:
        if failure.signal == Signal.TOKENS and failure.family in families:
            if isinstance(mean, Missing):
                return Missing(failure.reason, failure.detail)
            if isinstance(mean, Value):
                return replace(mean, coverage=min(mean.coverage, settings.config.partial_coverage))
    return mean


def _worst(findings: Sequence[Finding]) -> Finding:
    """The finding that decides the health; of equals the first, which is the nearest to the cause."""
    return min(findings, key=lambda finding: SEVERITY.index(finding.health))


def _proven_idle(seen: Sequence[SeenPod]) -> bool:
    """Every ready pod was scraped for a whole window, is up, and no counter moved; nothing runs or waits anywhere."""
    return all(pod.up and pod.trust is Trust.COMPLETE for pod in seen if pod.ready) and all(
        _is_still(pod.sample) for pod in seen if pod.current
    )


def _is_still(sample: PodSample) -> bool:
    counters = [rate for rate in (sample.values.get(Signal.FIRST_TOKENS), sample.ended_rate) if rate is not None]
    gauges = [sample.values.get(Signal.WAITING), sample.values.get(Signal.RUNNING)]
    return bool(counters) and all(value == 0 for value in (*counters, *gauges))


def _families(pods: Iterable[SeenPod]) -> str:
    counts = Counter(pod.sample.family for pod in pods)
    return ", ".join(f"{count} {family}" for family, count in sorted(counts.items()))


def _names(pods: Sequence[SeenPod]) -> str:
    names = sorted(pod.pod.name for pod in pods)
    return ", ".join(names[:NAMES_SHOWN]) + (", ..." if len(names) > NAMES_SHOWN else "")
