"""Knative's pod autoscaler (KPA): concurrency per pod over a stable and a panic window.

Written from the documented algorithm with its defaults: look every 2 s, stable window 60 s, panic window 10 % of it,
panic above 200 % of the ready pods, at most 1000 times up and half down at once; it does not scale down while it
panics. Concurrency counts requests in the pod and those that wait for it, as its queue proxy does.

Without data the KPA's result is not valid, and nothing is scaled. NB: it asks its queue proxies itself, so an outage of
Prometheus alone would not reach it; one that is replayed takes the proxies with it.
"""

from __future__ import annotations

import math
from collections import deque

from firsttoken_lab.replay.policies.view import View

STABLE_SECONDS = 60.0
PANIC_SHARE = 0.1
PANIC_THRESHOLD = 2.0
MAX_UP_RATE, MAX_DOWN_RATE = 1000.0, 2.0


class Knative:
    """KPA with a soft concurrency target."""

    name = "knative"
    interval_seconds = 2.0

    def __init__(self, requests_per_pod: float, initial: int, maximum: int, minimum: int = 1) -> None:
        """`requests_per_pod`: `autoscaling.knative.dev/target` times the target utilization (0.7 by default).

        `minimum`, `maximum`: the annotations `min-scale` and `max-scale`.
        """
        self._target, self.initial = requests_per_pod, initial
        self._minimum, self._maximum = minimum, maximum
        self._samples: deque[tuple[float, float]] = deque()
        self._panics_since: float | None = None
        self._panic_pods = 0

    def desired(self, view: View) -> int:
        """One look: both windows, panic while the short one asks for twice what is ready."""
        if view.is_blind:
            return view.replicas
        now, ready = view.now_seconds, max(1, view.ready)
        assert view.requests_in_pods is not None, "Knative's queue proxy is in every pod"
        self._samples.append((now, view.requests_in_pods()))
        while self._samples[0][0] <= now - STABLE_SECONDS:
            self._samples.popleft()
        stable = self._pods(self._average(now, STABLE_SECONDS), ready)
        panic = self._pods(self._average(now, PANIC_SHARE * STABLE_SECONDS), ready)
        if panic / ready >= PANIC_THRESHOLD:
            self._panics_since = now
        elif self._panics_since is not None and now - self._panics_since > STABLE_SECONDS:
            self._panics_since, self._panic_pods = None, 0
        wanted = stable
        if self._panics_since is not None:
            self._panic_pods = wanted = max(self._panic_pods, panic, view.replicas)
        return max(self._minimum, min(self._maximum, wanted))

    def _average(self, now: float, window: float) -> float:
        values = [value for at, value in self._samples if at > now - window]
        return sum(values) / len(values)

    def _pods(self, concurrency: float, ready: int) -> int:
        wanted = math.ceil(concurrency / self._target)
        return int(min(max(wanted, math.floor(ready / MAX_DOWN_RATE)), math.ceil(MAX_UP_RATE * ready)))
