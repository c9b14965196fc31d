"""Evener arrivals than random ones cannot make a batch of a fraction of a request longer or slower."""

from __future__ import annotations

import pytest

from firsttoken_sizing.performance import poisson
from firsttoken_sizing.performance.lengths import lengths_of
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Routing, Workload

BENT = StepModel(14.8e-3, 5.5e-5, 2.3e-8, 4.9e-5, 4e-10, batch_shape=((1.0, 1.0), (4.0, 1.15), (32.0, 1.4)))
CHAT = lengths_of(Workload(500, 200, output_tokens_p99=500))


@pytest.mark.parametrize("routing", [Routing.LEAST_LOADED, Routing.ROUND_ROBIN])
@pytest.mark.parametrize("load", [0.002, 0.02, 0.06, 0.15])
def test_decoding_takes_no_longer_than_behind_a_random_splitter(routing: Routing, load: float) -> None:
    rate = load * poisson.saturation_rate(BENT, CHAT)

    alone = poisson.predict(BENT, CHAT, rate).end_to_end
    light = poisson.predict(BENT, CHAT, 1e-3 * rate).end_to_end
    pooled = poisson.predict(BENT, CHAT, rate, replicas=50, routing=routing).end_to_end

    assert None not in (alone.mean, light.mean, pooled.mean)
    assert 0.97 * (light.mean or 0) < (pooled.mean or 0) < 1.03 * (alone.mean or 0)
    assert (pooled.p99 or 0) < 1.06 * (alone.p99 or 0)
