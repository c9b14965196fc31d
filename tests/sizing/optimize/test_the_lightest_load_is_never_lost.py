"""A limit that little more than a request alone keeps: the search by halves sees only loads that break it."""

from __future__ import annotations

import math

import pytest

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.optimize.load_model import Rate, rate_of
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance import poisson, static_batch
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Routing

STEP = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10, max_batch=64)
LENGTHS = Lengths(2000, 2000, 200)


def in_flight() -> Rate:
    stable = poisson.saturation_rate(STEP, LENGTHS)
    return rate_of(STEP, Scheduler(), LENGTHS, stable=stable, replicas=1, routing=Routing.RANDOM)


def static() -> Rate:
    return Rate(
        at=lambda rate: static_batch.predict_static_poisson(STEP, LENGTHS, 64, rate),
        capacity=lambda meets: static_batch.static_capacity(STEP, LENGTHS, 64, meets),
        stable=static_batch.static_saturation_rate(STEP, LENGTHS, 64),
        utilization=PARAMETERS.capacity.max_utilization,
    )


@pytest.mark.slow
@pytest.mark.parametrize("load_model", [in_flight(), static()], ids=["in flight", "static"])
def test_what_one_request_alone_keeps_is_a_load_above_zero(load_model: Rate) -> None:
    alone = load_model.alone()

    largest = load_model.largest(lambda point: point is alone)

    assert largest.point.requests_per_second == alone.requests_per_second > 0
    assert math.isfinite(largest.point.ttft.p95 or math.nan)
