"""`spec.behavior` of a Horizontal Pod Autoscaler: stabilization windows, and how much one period may change.

Written from the documented algorithm of autoscaling/v2, for every policy that ends in an HPA: plain, and what KEDA
makes. It knows nothing of metrics; the ratio and its tolerance are the caller's.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One direction, `selectPolicy: Max`: of `pods` and `percent` the one that allows more, within each period."""

    pods: int | None
    percent: int | None
    period_seconds: float
    window_seconds: float
    """`stabilizationWindowSeconds`: up takes the smallest recommendation of it, down the largest."""

    def most(self, replicas: int) -> float:
        """Pods that a period which began with so many replicas may add or remove."""
        by_pods = 0 if self.pods is None else self.pods
        by_percent = 0.0 if self.percent is None else replicas * self.percent / 100
        return max(by_pods, by_percent)


KUBERNETES_UP = Rule(pods=4, percent=100, period_seconds=15.0, window_seconds=0.0)
KUBERNETES_DOWN = Rule(pods=None, percent=100, period_seconds=15.0, window_seconds=300.0)
"""Rule where a manifest has no `behavior`."""


class Behavior:
    """Limits the recommendations of one HPA. Stateful: it remembers them, and what it changed."""

    def __init__(self, up: Rule, down: Rule, minimum: int, maximum: int) -> None:
        """`minimum`, `maximum`: `minReplicas` and `maxReplicas`."""
        self._up, self._down, self._minimum, self._maximum = up, down, minimum, maximum
        self._recommendations: deque[tuple[float, int]] = deque()
        self._changes: deque[tuple[float, int]] = deque()

    def limited(self, now_seconds: float, replicas: int, wanted: int) -> int:
        """Limit a change to what is set where `replicas` are asked for and `wanted` is recommended."""
        stable = self._stabilized(now_seconds, replicas, wanted)
        if stable > replicas:
            began = replicas - self._changed(now_seconds, self._up.period_seconds)
            most = math.ceil(began + self._up.most(began))
            allowed = min(stable, max(replicas, most), self._maximum)
        elif stable < replicas:
            began = replicas - self._changed(now_seconds, self._down.period_seconds)
            least = int(began - self._down.most(began))
            allowed = max(stable, min(replicas, least), self._minimum)
        else:
            allowed = replicas
        result = max(self._minimum, min(self._maximum, allowed))
        if result != replicas:
            self._changes.append((now_seconds, result - replicas))
        return result

    def _stabilized(self, now: float, replicas: int, wanted: int) -> int:
        if not self._recommendations:
            # The controller begins with what it finds, so that a new HPA too waits for its windows.
            self._recommendations.append((now, replicas))
        self._recommendations.append((now, wanted))
        longest = max(self._up.window_seconds, self._down.window_seconds)
        while len(self._recommendations) > 1 and self._recommendations[0][0] <= now - longest:
            self._recommendations.popleft()
        lowest, highest = wanted, wanted
        for at, recommended in self._recommendations:
            if at > now - self._up.window_seconds:
                lowest = min(lowest, recommended)
            if at > now - self._down.window_seconds:
                highest = max(highest, recommended)
        # In between nothing happens: one window says that it is enough, the other that it is not too much.
        return min(max(replicas, lowest), highest)

    def _changed(self, now: float, period: float) -> int:
        longest = max(self._up.period_seconds, self._down.period_seconds)
        while self._changes and self._changes[0][0] <= now - longest:
            self._changes.popleft()
        return sum(change for at, change in self._changes if at > now - period)
