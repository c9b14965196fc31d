"""Small worlds to play in: a replica that serves about two requests a second, and traffic with a spread of lengths."""

from __future__ import annotations

import numpy as np

from firsttoken_lab.replay.play import Stage
from firsttoken_lab.replay.policies.view import View
from firsttoken_lab.replay.replicas import ColdStart
from firsttoken_operator.domain import Metrics, Reason, Value
from firsttoken_sizing.simulation.fleet import Settings
from firsttoken_sizing.simulation.requests import Requests
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Limit, Percentile, Routing, Sla

STEP = StepModel(
    base_seconds=0.02,
    per_sequence_seconds=2e-4,
    per_context_token_seconds=1e-7,
    per_prefill_token_seconds=2e-4,
    per_prefill_token_squared_seconds=0.0,
    max_batch=16,
)
SLA = Sla(time_to_first_token=Limit(2000, Percentile.P95))


def stage(slots: int = 16, cold_start_seconds: float = 60.0, routing: Routing = Routing.LEAST_LOADED) -> Stage:
    return Stage(STEP, Settings(replicas=slots, routing=routing), ColdStart(cold_start_seconds))


def traffic(rates: list[tuple[float, float]], seed: int = 1) -> Requests:
    """Poisson requests at each `(seconds, requests a second)` in turn."""
    rng = np.random.default_rng(seed)
    arrival, began = [], 0.0
    for seconds, rate in rates:
        arrival.append(began + np.sort(rng.uniform(0, seconds, rng.poisson(rate * seconds))))
        began += seconds
    at = np.concatenate(arrival)
    prompt, output = (
        np.maximum(1, np.rint(mean * rng.lognormal(-0.125, 0.5, len(at)))).astype(np.int64) for mean in (1000, 100)
    )
    return Requests(at, prompt, prompt, output)


def view(
    now_seconds: float,
    replicas: int,
    *,
    running: float,
    waiting: float = 0.0,
    ready: int | None = None,
    held: float = 0.0,
) -> View:
    """View of an autoscaler; pods that are not ready are starting."""
    ready = replicas if ready is None else ready
    value = Value(1.0)
    metrics = Metrics(Reason.PRESENT, "", value, value, value, value, value, value, None, 60.0)
    return View(
        now_seconds=now_seconds,
        replicas=replicas,
        ready=ready,
        starting=replicas - ready,
        terminating=0,
        running_requests=running,
        waiting_requests=waiting,
        read_metrics=lambda: metrics,
        requests_in_pods=lambda: held,
    )
