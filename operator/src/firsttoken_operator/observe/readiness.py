"""How long the pods of a Deployment take from being scheduled to being Ready, learned from its own pods.

It decides for how long a starting pod is credited as capacity. What is learned only makes us more patient than the
default: starts on nodes that have the image already say nothing about one that must pull it, and a pod that is given up
too early is ordered a second time. What is learned is lost at a restart and learned again from the pods that exist.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from firsttoken_operator.observe.projections import PodView

KEPT = 50
"""Durations kept of one Deployment."""

LONGEST_START_SECONDS = 3600.0
"""A pod that was Ready later than this after being scheduled lost its readiness in between: that was no start."""

SLACK = 1.25
"""How far above the slowest start a pod may be before it counts as stuck."""

DEFAULT_PATIENCE_SECONDS = 900.0
"""What a pod that pulls its image and loads a large model over a network may take."""


@dataclass(frozen=True, slots=True)
class TimeToReady:
    """Percentiles in seconds, scheduled -> Ready, of `pods` starts."""

    p50_seconds: float
    p90_seconds: float
    p99_seconds: float
    pods: int


class ReadinessHistory:
    """Durations of the last starts of each Deployment."""

    def __init__(self) -> None:
        self._durations: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))
        self._learned: set[str] = set()

    def learn(self, deployment_uid: str, pod: PodView) -> None:
        """Take a pod into account once, when it is first seen Ready."""
        # NB: after a restart of a container, or once a probe failed, the transition time is that of the last recovery.
        if pod.ready_seconds is None or pod.uid in self._learned or pod.restarts:
            return
        self._learned.add(pod.uid)
        began = pod.created_seconds if pod.scheduled_seconds is None else pod.scheduled_seconds
        took = max(0.0, pod.ready_seconds - began)
        if took <= LONGEST_START_SECONDS:
            self._durations[deployment_uid].append(took)

    def forget_pod(self, pod_uid: str) -> None:
        """A pod is gone; its duration stays."""
        self._learned.discard(pod_uid)

    def forget_deployment(self, deployment_uid: str) -> None:
        """A Deployment is gone."""
        self._durations.pop(deployment_uid, None)

    def of(self, deployment_uid: str) -> TimeToReady | None:
        """What is known of one Deployment."""
        durations = sorted(self._durations.get(deployment_uid, ()))
        if not durations:
            return None
        return TimeToReady(
            _nearest_rank(durations, 0.5), _nearest_rank(durations, 0.9), _nearest_rank(durations, 0.99), len(durations)
        )


def patience_seconds(known: TimeToReady | None, time_scale: float) -> float:
    """How long after being scheduled a pod is credited as starting. Only the default is divided by the time scale."""
    default = DEFAULT_PATIENCE_SECONDS / time_scale
    if known is None:
        return default
    return max(default, SLACK * known.p99_seconds + 1.0)  # condition times have whole seconds


def _nearest_rank(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
