from __future__ import annotations

import numpy as np
import pytest

from firsttoken_sizing.performance import poisson
from firsttoken_sizing.performance.lengths import Lengths, lengths_of
from firsttoken_sizing.performance.routing import poisson_counts
from firsttoken_sizing.performance.statistics import latency_of
from firsttoken_sizing.profile import Latency, Point
from firsttoken_sizing.simulation import Settings, drawn_requests, poisson_arrivals, simulate
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Routing, Workload

STEP = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10)
FIXED = Lengths(2000, 2000, 200)
SPREAD = lengths_of(Workload(2000, 200, input_tokens_p99=6000, output_tokens_p99=600))


def simulated(lengths: Lengths, rate: float, replicas: int, routing: Routing) -> tuple[Latency, Latency]:
    rng = np.random.default_rng(3)
    requests = drawn_requests(lengths, poisson_arrivals(rate * replicas, 60_000, rng), rng)
    outcome = simulate(STEP, requests, Settings(replicas=replicas, routing=routing))
    return latency_of(1000 * outcome.ttft_s[6000:]), latency_of(1000 * outcome.end_to_end_s[6000:])


@pytest.mark.parametrize(
    ("routing", "lengths", "tolerance"),
    [(Routing.RANDOM, FIXED, 0.05), (Routing.ROUND_ROBIN, FIXED, 0.05), (Routing.LEAST_LOADED, SPREAD, 0.08)],
    ids=str,
)
def test_one_of_four_replicas_agrees_with_the_simulation(routing: Routing, lengths: Lengths, tolerance: float) -> None:
    rate = 0.7 * poisson.saturation_rate(STEP, lengths)

    predicted = poisson.predict(STEP, lengths, rate, replicas=4, routing=routing)
    ttft, total = simulated(lengths, rate, 4, routing)

    assert predicted.ttft.mean == pytest.approx(ttft.mean, rel=tolerance)
    assert predicted.ttft.p95 == pytest.approx(ttft.p95, rel=tolerance)
    assert predicted.end_to_end.p95 == pytest.approx(total.p95, rel=0.05)


def test_behind_a_random_splitter_every_replica_is_alone() -> None:
    assert poisson.predict(STEP, FIXED, 8.0, replicas=5) == poisson.predict(STEP, FIXED, 8.0)


@pytest.mark.parametrize("routing", [Routing.ROUND_ROBIN, Routing.LEAST_LOADED])
def test_one_replica_alone_has_nothing_to_share(routing: Routing) -> None:
    assert poisson.predict(STEP, FIXED, 8.0, replicas=1, routing=routing) == poisson.predict(STEP, FIXED, 8.0)


@pytest.mark.parametrize("routing", [Routing.ROUND_ROBIN, Routing.LEAST_LOADED])
def test_the_more_replicas_share_the_more_each_carries(routing: Routing) -> None:
    def within(point: Point) -> bool:
        return (point.ttft.p95 or 0.0) <= 100

    capacities = [poisson.capacity(STEP, FIXED, within, replicas=n, routing=routing) for n in (1, 2, 4, 16)]

    assert capacities == sorted(capacities)
    assert capacities[-1] > 1.2 * capacities[0]


def test_equal_requests_fall_into_step_behind_least_loaded() -> None:
    # What `routing` says of the exception that its model leaves out.
    step = StepModel(14.8e-3, 5.5e-5, 2.3e-8, 4.9e-5, 4e-10)
    rate = 0.7 * poisson.saturation_rate(step, FIXED)
    rng = np.random.default_rng(3)
    arrivals = poisson_arrivals(rate * 8, 40_000, rng)
    nearly = lengths_of(Workload(2000, 200, output_tokens_p99=220))

    at_random, equal, varied = (
        float(np.percentile(simulate(step, requests, settings).ttft_s[4000:], 95))
        for requests, settings in (
            (drawn_requests(FIXED, arrivals, rng), Settings(replicas=8)),
            (drawn_requests(FIXED, arrivals, rng), Settings(replicas=8, routing=Routing.LEAST_LOADED)),
            (drawn_requests(nearly, arrivals, rng), Settings(replicas=8, routing=Routing.LEAST_LOADED)),
        )
    )

    assert equal > 2 * at_random
    assert varied < at_random


def test_counts_are_poisson_numbers() -> None:
    expected = np.repeat([0.0, 0.3, 2.0, 12.0], 5000)

    counts = poisson_counts(np.random.default_rng(1), expected).reshape(4, 5000)

    assert counts.mean(axis=1) == pytest.approx([0.0, 0.3, 2.0, 12.0], rel=0.01)
    assert counts.var(axis=1) == pytest.approx([0.0, 0.3, 2.0, 12.0], rel=0.03)
    assert (counts[2] == 0).mean() == pytest.approx(np.exp(-2), rel=0.02)
