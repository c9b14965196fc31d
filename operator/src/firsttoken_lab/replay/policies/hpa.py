"""The Horizontal Pod Autoscaler of Kubernetes (autoscaling/v2), and KEDA, which feeds one with a queue length.

Written from the documented algorithm: ratio with tolerance, pods that are not ready count as idle when it would scale
up, stabilization window and policies of `spec.behavior`. Defaults are those of Kubernetes 1.36: 15 s between two looks,
tolerance 0.1, up by max(100 %, 4 pods) in 15 s without a window, down by 100 % in 15 s after 300 s.

Without the metric an HPA does nothing, and remembers nothing. So does KEDA's where the Prometheus scaler gets an error,
unless a `fallback` is set. NB: KEDA takes an empty answer for 0 (`ignoreNullValues`, on by default), so a Prometheus
that answers and has lost its targets scales a fleet down; that is not replayed.
"""

from __future__ import annotations

import math

from firsttoken_lab.replay.policies.behavior import KUBERNETES_DOWN, KUBERNETES_UP, Behavior
from firsttoken_lab.replay.policies.view import View

SYNC_SECONDS = 15.0
TOLERANCE = 0.1


class Hpa:
    """Type Pods, AverageValue: running (and waiting) requests a pod, which is what people scale LLM pods on."""

    name = "hpa"
    interval_seconds = SYNC_SECONDS

    def __init__(self, requests_per_pod: float, initial: int, maximum: int, minimum: int = 1) -> None:
        """`requests_per_pod`: the target, the parameter that no documentation says how to tune."""
        self._target, self.initial = requests_per_pod, initial
        self._behavior = Behavior(KUBERNETES_UP, KUBERNETES_DOWN, minimum, maximum)

    def desired(self, view: View) -> int:
        """One sync: the ratio of usage to target over the ready pods, then the limits of `behavior`."""
        if not view.ready or view.running_requests is None or view.waiting_requests is None:
            return view.replicas
        usage = view.running_requests + view.waiting_requests
        wanted = self._of_ratio(view, usage / (view.ready * self._target), usage)
        return self._behavior.limited(view.now_seconds, view.replicas, wanted)

    def _of_ratio(self, view: View, ratio: float, usage: float) -> int:
        if abs(ratio - 1) <= TOLERANCE:
            return view.replicas
        if ratio > 1 and view.starting:
            # Pods that are not ready are taken to be idle; where that turns the ratio around, nothing is done.
            ratio = usage / ((view.ready + view.starting) * self._target)
            if ratio <= 1 + TOLERANCE:
                return view.replicas
            return max(view.replicas, math.ceil(ratio * (view.ready + view.starting)))
        return math.ceil(ratio * view.ready)


class KedaQueue:
    """A ScaledObject on the queue length: an HPA on an external metric with AverageValue, scraped by KEDA."""

    name = "keda"
    interval_seconds = SYNC_SECONDS

    def __init__(self, waiting_per_pod: float, initial: int, maximum: int, minimum: int = 1) -> None:
        """`waiting_per_pod`: queued requests that one replica may have (`threshold`)."""
        self._target, self.initial = waiting_per_pod, initial
        self._behavior = Behavior(KUBERNETES_UP, KUBERNETES_DOWN, minimum, maximum)

    def desired(self, view: View) -> int:
        """One sync: the total over the target, whatever is ready; then the limits of `behavior`."""
        if view.waiting_requests is None:
            return view.replicas
        ratio = view.waiting_requests / (self._target * view.replicas)
        inside = abs(ratio - 1) <= TOLERANCE
        wanted = view.replicas if inside else math.ceil(view.waiting_requests / self._target)
        return self._behavior.limited(view.now_seconds, view.replicas, wanted)
