from __future__ import annotations

import math
from statistics import median

from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance import poisson
from firsttoken_sizing.performance.lengths import Lengths, lengths_of
from firsttoken_sizing.performance.limits import meets
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Limit, Percentile, Routing, Sla, Workload
from tests.fixtures.hypothesis_scale import examples
from tests.fixtures.reference_core import reference_seconds

STEP = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10)
steps = st.builds(
    StepModel,
    st.floats(1e-4, 0.1),
    st.floats(0, 1e-3),
    st.floats(0, 1e-6),
    st.floats(1e-7, 1e-3),
    st.floats(0, 1e-8),
    max_batch=st.integers(1, 512),
    expert_seconds=st.sampled_from([0.0, 0.02]),
    idle_expert_share=st.sampled_from([0.75, 0.97]),
    batch_shape=st.sampled_from([(), ((1.0, 1.0), (16.0, 1.4), (64.0, 0.8))]),
)
workloads = st.builds(
    Workload,
    st.floats(1, 50_000),
    st.floats(1, 5_000),
    cached_input_percent=st.sampled_from([0.0, 50.0, 100.0]),
)
schedulers = st.builds(Scheduler, st.integers(64, 65_536), st.booleans(), st.integers(0, 1))


@settings(max_examples=examples(60))
@given(
    steps,
    workloads,
    schedulers,
    st.floats(1, 14),
    st.floats(0.001, 0.99),
    st.integers(1, 50),
    st.sampled_from(list(Routing)),
)
def test_every_replica_has_finite_rising_percentiles(
    step: StepModel,
    workload: Workload,
    scheduler: Scheduler,
    tail: float,
    load: float,
    replicas: int,
    routing: Routing,
) -> None:
    lengths = lengths_of(workload)
    if tail > 2:
        lengths = lengths_of(
            Workload(
                workload.input_tokens,
                workload.output_tokens,
                input_tokens_p99=tail * workload.input_tokens,
                output_tokens_p99=tail * workload.output_tokens,
            )
        )
    rate = load * poisson.saturation_rate(step, lengths, scheduler)

    at = poisson.predict(step, lengths, rate, scheduler, replicas, routing)

    for latency in (at.ttft, at.itl, at.end_to_end):
        percentiles = [latency.p50, latency.p90, latency.p95, latency.p99]
        assert all(p is not None and math.isfinite(p) and p >= 0 for p in [latency.mean, *percentiles])
        assert percentiles == sorted(percentiles, key=lambda p: p or 0.0)


@settings(max_examples=examples(12))
@given(
    st.floats(20, 2000),
    st.floats(1, 3),
    st.sampled_from([Percentile.MEAN, Percentile.P95, Percentile.P99]),
    st.sampled_from([Lengths(2000, 2000, 200), Lengths(200, 200, 800)]),
    st.sampled_from([1, 4]),
)
def test_a_looser_limit_never_carries_less(
    milliseconds: float, looser: float, percentile: Percentile, lengths: Lengths, replicas: int
) -> None:
    def capacity(limit: float) -> float:
        sla = Sla(time_to_first_token=Limit(limit, percentile), inter_token_latency=Limit(limit / 10, percentile))
        return poisson.capacity(
            STEP, lengths, lambda p: meets(p, sla) is True, replicas=replicas, routing=Routing.ROUND_ROBIN
        )

    assert capacity(milliseconds) <= capacity(looser * milliseconds)


def test_a_prediction_takes_milliseconds() -> None:
    lengths = Lengths(2000, 2000, 200)
    saturation = poisson.saturation_rate(STEP, lengths)
    taken = [
        reference_seconds(lambda rate=share * saturation: poisson.predict(STEP, lengths, rate), runs=3)
        for share in (0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9)
    ]

    # About 4 ms on an idle core; a search over 8 candidates needs 150 of them in a second.
    assert median(taken) < 0.02
