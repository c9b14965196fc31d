"""Findings: all that is wrong with what the pods of one resource said, and what mends it.

Each says how far the data can still be believed: nothing of it, or as a lower bound. What a tenant can mend is named in
the words of the server that the pods run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firsttoken_operator.domain import Measurement, Missing, Reason, Value
from firsttoken_operator.families import FAMILIES, Signal, Symptom
from firsttoken_operator.observe.collect import UNKNOWN_POD, SourceReading
from firsttoken_operator.observe.freshness import MeasureSettings, SeenPod, Trust
from firsttoken_operator.observe.shortcomings import ttft_advice
from firsttoken_operator.observe.sums import Sums

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


def worst(findings: Sequence[Finding]) -> Finding:
    """The finding that decides the health; of equals the first, which is the nearest to the cause."""
    return min(findings, key=lambda finding: SEVERITY.index(finding.health))


def about_pods(seen: Sequence[SeenPod], reading: SourceReading, settings: MeasureSettings) -> list[Finding]:
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
            findings.append(Finding(Reason.MISSING, *_why_unseen(lost, reading)))
    elif lost or stale:
        text = f"{len(lost) + len(stale)} of {many} ready pods without current samples: {_names([*lost, *stale])}"
        cause, why = _why_unseen(lost, reading) if lost else (Reason.STALE, "")
        # NB: where there is no more to say than that there are none, their names say more.
        findings.append(Finding(Reason.PARTIAL, cause, text if cause in (Reason.NO_SERIES, Reason.STALE) else why))
    if slow := [pod for pod in short if _is_scraped_too_slowly(pod, settings)]:
        samples = slow[0].sample.values.get(Signal.SAMPLES, 0.0)
        text = (
            f"{samples:g} samples in {settings.window_seconds:g} s of {_names(slow)}, one every "
            f"{settings.scrape_interval_seconds:g} s is expected: scrape as often, or set scrapeIntervalSeconds in the "
            "chart to what Prometheus does"
        )
        findings.append(Finding(Reason.RECOVERING, Reason.SCRAPE_TOO_SLOW, text))
    elif short:
        text = f"the rate window of {len(short)} of {many} ready pods is not filled yet"
        findings.append(Finding(Reason.RECOVERING, Reason.NOT_ENOUGH_SAMPLES, text))
    return findings


def _why_unseen(lost: Sequence[SeenPod], reading: SourceReading) -> tuple[Reason, str]:
    """Find why there is no series of ready pods, and what mends it."""
    many = len(lost)
    if any(Symptom.EXPORTED in reading.symptoms.get(pod.key, ()) for pod in lost):
        text = (
            f"the series of {many} ready pods have them in exported_pod, and in pod what passes them on: scrape the "
            "pods themselves, or relabel exported_namespace and exported_pod to namespace and pod for that job alone"
        )
        return Reason.EXPORTED_LABELS, text
    if any(pod.up for pod in lost):
        known = ", ".join(family.name for family in FAMILIES)
        needs = "; ".join(dict.fromkeys(family.advice.publish for family in FAMILIES if family.advice.publish))
        text = f"{many} ready pods are scraped and publish no series of {known}; scrape the server itself: {needs}"
        return Reason.UNKNOWN_RUNTIME, text
    if Symptom.UNLABELED in reading.symptoms.get(UNKNOWN_POD, ()):
        text = (
            f"no series of {many} ready pods, and there are series without the label pod: relabel "
            "__meta_kubernetes_namespace to namespace and __meta_kubernetes_pod_name to pod"
        )
        return Reason.LABEL_MISMATCH, text
    return Reason.NO_SERIES, f"no series of {many} ready pods"


def _is_scraped_too_slowly(pod: SeenPod, settings: MeasureSettings) -> bool:
    """Tell whether a window that its samples cover holds too few of them."""
    start = pod.sample.values.get(Signal.START_AGE, math.inf) - settings.window_seconds
    return abs(start) <= settings.longest_gap_seconds


def about_families(current: Sequence[SeenPod]) -> list[Finding]:
    """Find what it means that pods publish several families."""
    findings = []
    if double := [pod for pod in current if pod.sample.others]:
        first = double[0].sample
        text = (
            f"{_names(double)} publish {first.family} and {', '.join(first.others)}, of which the first is read: "
            "scrape the port of the server alone, or drop the series of the other"
        )
        findings.append(Finding(Reason.PARTIAL, Reason.TWO_FAMILIES, text))
    if len({pod.sample.family for pod in current}) > 1:
        text = (
            f"the pods publish {families_of(current)}, and nothing is lowered until all of them publish the same: let "
            "the rollout end, or undo it"
        )
        findings.append(Finding(Reason.PARTIAL, Reason.FAMILY_CHANGING, text))
    return findings


def about_ttft(current: Sequence[SeenPod], layouts: int) -> list[Finding]:
    """Find what histograms that differ between pods mean for the TTFT."""
    findings = []
    if layouts > 1:
        text = f"{layouts} TTFT bucket layouts, the largest is read"
        findings.append(Finding(Reason.PARTIAL, Reason.PARTIAL, text))
    without = [pod for pod in current if ttft_advice(pod.sample) and not pod.sample.buckets]
    if layouts and without:
        text = f"{len(without)} of {len(current)} pods publish no TTFT histogram: {ttft_advice(without[0].sample)}"
        findings.append(Finding(Reason.PARTIAL, Reason.TTFT_NOT_OBSERVED, text))
    return findings


def about_queries(reading: SourceReading, seen: Sequence[SeenPod]) -> list[Finding]:
    """Find what failed queries mean for these pods: nothing at all known, or something missing."""
    families = {pod.sample.family for pod in seen if pod.current}
    complete = all(pod.current for pod in seen if pod.required)
    findings = []
    for failure in reading.failures:
        if failure.hides_pods and not families:
            health = Reason.MISSING
        elif (failure.hides_pods and not complete) or failure.family in families or failure.family == "":
            health = Reason.PARTIAL
        else:
            continue
        findings.append(Finding(health, failure.reason, failure.detail))
    return findings


def about_numbers(sums: Sums, measurements: dict[str, Measurement]) -> list[Finding]:
    """Find what the sums themselves say: unknown, or known of fewer pods than could have said it."""
    findings = []
    for name, measurement in measurements.items():
        if isinstance(measurement, Missing):
            findings.append(Finding(Reason.MISSING, measurement.reason, f"{name}: {measurement.detail}"))
        elif isinstance(measurement, Value) and measurement.coverage < sums.possible_coverage:
            text = f"{name}: unknown for some of the ready pods"
            findings.append(Finding(Reason.PARTIAL, sums.doubts[-1] if sums.doubts else Reason.PARTIAL, text))
    return findings


def families_of(pods: Iterable[SeenPod]) -> str:
    """The families that pods publish, most pods first, with their numbers where there are several."""
    counts = Counter(pod.sample.family for pod in pods)
    if len(counts) < 2:
        return "".join(counts)
    return ", ".join(f"{count} {family}" for family, count in sorted(counts.items(), key=lambda item: (-item[1], item)))


def _names(pods: Sequence[SeenPod]) -> str:
    names = sorted(pod.pod.name for pod in pods)
    return ", ".join(names[:NAMES_SHOWN]) + (", ..." if len(names) > NAMES_SHOWN else "")
