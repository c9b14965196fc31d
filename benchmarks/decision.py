"""Cost of a tick: the decision on a thousand resources against predicting with the performance model at every tick.

    .venv/bin/python benchmarks/decision.py

Both sides answer the same questions (latencies at N-1, N and N+1 replicas under the live load); the decision does it
by looking into the table that was built when the resource was sized. One process, one core, medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from firsttoken_operator.api.convert import scaling_policy, sizing_request
from firsttoken_operator.api.documents import load_documents
from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import (
    DEPLOYMENT,
    FleetSnapshot,
    Metrics,
    Reason,
    ResourceSnapshot,
    Sized,
    Target,
    Value,
)
from firsttoken_sizing import Arrivals, size

EXAMPLE = Path(__file__).parents[1] / "examples" / "call-center.yaml"
RESOURCES = 1000
ROUNDS = 5
LOAD = 120.0


def resource(number: int, sized: Sized, like: ResourceSnapshot) -> ResourceSnapshot:
    """One of many equal deployments, each with its own load."""
    arrivals = Value(LOAD * (0.5 + number / RESOURCES))
    metrics = replace(like.metrics, arrivals=arrivals, first_tokens=arrivals)
    return replace(like, uid=str(number), name=f"r{number}", sized=sized, metrics=metrics)


def median_seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Median duration of `work`."""
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def main() -> None:
    """Measure and print one line a figure."""
    documents = load_documents(EXAMPLE)
    deployment = documents.deployments[0]
    closed_loop = sizing_request(deployment, documents.pools, documents.benchmarks)
    request = replace(closed_loop, arrivals=Arrivals.POISSON)
    answer = size(request)
    assert answer.configuration is not None
    assert answer.table is not None
    sized = Sized(answer.configuration, answer.table, request.sla, answer.replicas, answer.replicas_for_average)
    zero = Value(0)
    metrics = Metrics(Reason.PRESENT, "", zero, zero, zero, zero, zero, zero, None, 60.0)
    target = Target(uid="d", kind=DEPLOYMENT, name="d", replicas=12, ready=12)
    like = ResourceSnapshot("", "default", "", 1, scaling_policy(deployment, None), sized, target, metrics)
    snapshot = FleetSnapshot(0.0, 15.0, tuple(resource(n, sized, like) for n in range(RESOURCES)))

    tick = median_seconds(lambda: decide(snapshot, Memory())) / RESOURCES
    model = median_seconds(lambda: size(request))
    curve = median_seconds(lambda: size(closed_loop))
    print(f"decision, one resource of {RESOURCES}: {tick * 1000:.3f} ms")
    print(f"sizing one resource anew, Poisson: {model * 1000:.1f} ms, {model / tick:.0f} times the decision")
    print(f"sizing one resource anew, closed loop: {curve * 1000:.1f} ms, {curve / tick:.0f} times the decision")


if __name__ == "__main__":
    main()
