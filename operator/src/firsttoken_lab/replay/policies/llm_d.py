"""llm-d's SLO-aware autoscaling: a saturation signal from the latencies of its gateway, through KEDA, to an HPA.

Written from the llm-d documentation (guide "SLO-aware autoscaling with KEDA and predicted latency" and the derivation
of its control law), with the values that it was benchmarked with. The signal is the documented fallback, the measured
latencies: the trained latency predictor of its endpoint picker, which would rise a little earlier, is not replayed.

While metrics are out it holds, as the HPA of KEDA does on an error of the trigger. NB: that is the kind reading. Its
recording rules map no data to 0 as they do no traffic, which sheds replicas, and the `fallback` of its example is 1.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from firsttoken_lab.replay.gateway import Seen
from firsttoken_lab.replay.policies.behavior import Behavior, Rule
from firsttoken_lab.replay.policies.view import View
from firsttoken_sizing.errors import InvalidInput

SYNC_SECONDS = 15.0
"""Interval of the recording rules, and of the HPA."""
RATE_WINDOW_SECONDS = 60.0
QUANTILE = 0.9
"""Quantile of TTFT and TPOT; the guide's, whatever the SLA's percentile is."""
UP = Rule(pods=4, percent=100, period_seconds=60.0, window_seconds=30.0)
DOWN = Rule(pods=1, percent=None, period_seconds=120.0, window_seconds=180.0)


@dataclass(frozen=True, slots=True)
class Law:
    """Parameters of the control law, at their documented values. Signals are latency / SLO."""

    scale_up_above: float = 0.55
    scale_down_below: float = 0.40
    clamp: float = 2.0
    """Applied to each sample before it is averaged: one sample at the knee must not inflate the average for long."""
    average_seconds: float = 45.0
    tolerance: float = 0.1
    """Tolerance of the HPA that KEDA makes: a smaller relative change is ignored, as +1 is from 10 replicas on."""

    def __post_init__(self) -> None:
        if not 0 < self.scale_down_below <= self.scale_up_above < self.clamp:
            raise InvalidInput(
                "law",
                f"{self.scale_down_below:g}, {self.scale_up_above:g}, {self.clamp:g} do not ascend",
                "use 0 < scale_down_below <= scale_up_above < clamp",
            )

    def wanted(self, saturation: float, provisioned: int, ready: int) -> int:
        """Replicas for an averaged signal: fast up with credit for the pods that are starting, down without it."""
        if saturation > self.scale_up_above:
            # Ready pods carry the load of all: what is starting already will take its part of it.
            # NB: never below what is there. The formula alone would shed replicas while others start; the guide says
            # that a pool sheds on the signal without credit only.
            credit = ready / provisioned if 0 < ready < provisioned else 1.0
            return provisioned + max(0, math.ceil(provisioned * (saturation * credit / self.scale_up_above - 1)))
        if saturation < self.scale_down_below:
            return provisioned - math.floor(provisioned * (1 - saturation / self.scale_down_below))
        return provisioned


class LlmD:
    """One model, one pair of SLOs, behind an endpoint picker. Needs `View.gateway`."""

    name = "llm-d"
    interval_seconds = SYNC_SECONDS

    def __init__(
        self,
        ttft_seconds: float,
        tpot_seconds: float | None,
        initial: int,
        maximum: int,
        minimum: int = 1,
        law: Law | None = None,
    ) -> None:
        """`ttft_seconds`, `tpot_seconds`: the SLOs; without the second only TTFT counts. `law`: None is `Law()`."""
        self._ttft_seconds, self._tpot_seconds, self.initial = ttft_seconds, tpot_seconds, initial
        self._law = law or Law()
        self._behavior = Behavior(UP, DOWN, minimum, maximum)
        self._samples: deque[tuple[float, float]] = deque()

    def desired(self, view: View) -> int:
        """One evaluation: recording rules, KEDA's formula, the HPA's tolerance and `behavior`."""
        if view.is_blind:
            return view.replicas
        if view.gateway is None:
            raise InvalidInput("view.gateway", "is missing", "llm-d scales on what its endpoint picker measures")
        saturation = self._averaged(view.now_seconds, self._saturation(view.gateway.seen(RATE_WINDOW_SECONDS)))
        wanted = self._law.wanted(saturation, view.replicas, view.ready)
        if abs(wanted / view.replicas - 1) <= self._law.tolerance:
            wanted = view.replicas
        return self._behavior.limited(view.now_seconds, view.replicas, wanted)

    def _saturation(self, seen: Seen) -> float:
        """The worse of both; 0 without traffic, and so also where nothing gets an answer any more."""
        ratios = [0.0]
        if len(seen.ttft_seconds):
            ratios.append(float(np.quantile(seen.ttft_seconds, QUANTILE)) / self._ttft_seconds)
        if self._tpot_seconds is not None and len(seen.tpot_seconds):
            ratios.append(float(np.quantile(seen.tpot_seconds, QUANTILE)) / self._tpot_seconds)
        return max(ratios)

    def _averaged(self, now: float, sample: float) -> float:
        self._samples.append((now, min(sample, self._law.clamp)))
        while self._samples[0][0] <= now - self._law.average_seconds:
            self._samples.popleft()
        return sum(value for _, value in self._samples) / len(self._samples)
