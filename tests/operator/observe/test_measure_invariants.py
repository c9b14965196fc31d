"""Invariants of `measure` whatever the pods said: any float, any missing signal, any set of pods."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.domain import Idle, Metrics, Missing, Reason, Value
from firsttoken_operator.families import FAILED, SERVED, Signal, TokenPart
from firsttoken_operator.observe.collect import Failure, PodSample, SourceReading
from firsttoken_operator.observe.freshness import LivePod
from firsttoken_operator.observe.measure import measure
from firsttoken_sizing.workload import Limit, Percentile
from tests.fixtures.hypothesis_scale import examples
from tests.operator.observe.readings import LIMIT, NAMESPACE, SETTINGS, reading, sample, value

ANY = st.floats(allow_nan=True, allow_infinity=True)
LIKELY = st.one_of(ANY, st.floats(0, 100), st.sampled_from([0.0, 3.0, 4.0]))
NAMES = st.sampled_from(["p0", "p1", "p2", "p3"])
SAMPLES = st.builds(
    PodSample,
    family=st.sampled_from(["vLLM", "NIM 1.x"]),
    values=st.dictionaries(st.sampled_from(list(Signal)), LIKELY),
    buckets=st.dictionaries(st.one_of(ANY, st.sampled_from([0.25, 0.5, math.inf])), LIKELY, max_size=5),
    ended=st.dictionaries(st.sampled_from([SERVED, FAILED]), LIKELY),
    tokens=st.dictionaries(st.sampled_from(list(TokenPart)), LIKELY),
)
FAILURES = st.builds(
    Failure,
    family=st.sampled_from(["", "vLLM", "NIM 1.x"]),
    reason=st.sampled_from([Reason.SERVER_ERROR, Reason.PARTIAL_RESPONSE]),
    detail=st.just("detail"),
)
READINGS = st.builds(
    SourceReading,
    pods=st.dictionaries(st.tuples(st.just(NAMESPACE), NAMES), SAMPLES),
    up=st.dictionaries(st.tuples(st.just(NAMESPACE), NAMES), st.one_of(ANY, st.sampled_from([0.0, 1.0]))),
    failures=st.lists(FAILURES, max_size=2).map(tuple),
)
PODS = st.lists(
    st.builds(
        LivePod, namespace=st.just(NAMESPACE), name=NAMES,
        ready_seconds=st.one_of(st.none(), st.floats(0, 1e6)), terminating=st.booleans(),
    ),
    unique_by=lambda pod: pod.name,
)  # fmt: skip
HEALTH = {
    Reason.PRESENT,
    Reason.IDLE,
    Reason.MISSING,
    Reason.STALE,
    Reason.PARTIAL,
    Reason.RECOVERING,
    Reason.ERRORS_PRESENT,
}
HEALTHY = st.lists(st.builds(sample, rate=st.floats(0, 1000)), min_size=1, max_size=6)


def measurements(metrics: Metrics) -> tuple[object, ...]:
    return (
        metrics.arrivals, metrics.first_tokens, metrics.waiting, metrics.running, metrics.error_share,
        metrics.kv_percent, metrics.input_tokens, metrics.output_tokens,
    )  # fmt: skip


@given(READINGS, PODS, st.sampled_from(list(Percentile)))
@settings(max_examples=examples(500))
def test_nothing_raises_and_every_value_can_be_believed(
    base: SourceReading, live: list[LivePod], percentile: Percentile
) -> None:
    metrics = measure(base, live, Limit(200.0, percentile), SETTINGS)

    assert metrics.health in HEALTH
    for measurement in measurements(metrics):
        if isinstance(measurement, Value):
            assert 0 <= measurement.coverage <= 1
            assert 0 <= measurement.age_seconds <= SETTINGS.longest_gap_seconds
    if metrics.ttft is not None:
        late, high = metrics.ttft.late, metrics.ttft.high_milliseconds
        assert high is None or metrics.ttft.low_milliseconds <= high
        assert late is None or 0 <= late.low <= late.estimate <= late.high <= 1
    if metrics.health in (Reason.PRESENT, Reason.IDLE):
        # NB: this is what a scale-down stands on.
        for measurement in (metrics.arrivals, metrics.waiting, metrics.running):
            assert isinstance(measurement, Idle) or (isinstance(measurement, Value) and measurement.coverage == 1)
        for pod in live:
            if pod.ready_seconds is not None and pod.ready_seconds >= SETTINGS.warm_up_seconds and not pod.terminating:
                assert base.pods[pod.namespace, pod.name].values[Signal.SAMPLES] >= SETTINGS.complete_samples


@given(READINGS, PODS, st.randoms(use_true_random=False))
@settings(max_examples=examples(200))
def test_the_order_of_pods_and_series_does_not_matter(base: SourceReading, live: list[LivePod], random: object) -> None:
    pods, series = list(live), list(base.pods.items())
    random.shuffle(pods)  # type: ignore[attr-defined]
    random.shuffle(series)  # type: ignore[attr-defined]

    first = measure(base, live, LIMIT, SETTINGS)
    second = measure(replace(base, pods=dict(series)), pods, LIMIT, SETTINGS)

    assert first.health is second.health
    for one, other in zip(measurements(first), measurements(second), strict=True):
        assert type(one) is type(other)
        if isinstance(one, Value) and isinstance(other, Value):
            assert math.isclose(one.value, other.value, rel_tol=1e-9, abs_tol=1e-9)


@given(HEALTHY, st.data())
@settings(max_examples=examples(200))
def test_losing_a_pod_never_leaves_data_that_may_lower_replicas(said: list[PodSample], data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, len(said) - 1))
    live = [LivePod(NAMESPACE, f"p{index}", 3600.0) for index in range(len(said))]

    heard = [None if index == lost else one for index, one in enumerate(said)]

    metrics = measure(reading(*heard), live, LIMIT, SETTINGS)

    assert metrics.health not in (Reason.PRESENT, Reason.IDLE)
    if len(said) > 1:
        whole = measure(reading(*said), live, LIMIT, SETTINGS)
        assert isinstance(metrics.arrivals, Value)
        assert isinstance(whole.arrivals, Idle) or metrics.arrivals.value <= value(whole.arrivals) * (1 + 1e-9)
    else:
        assert isinstance(metrics.arrivals, Missing)


@given(HEALTHY, st.floats(0, 1000))
@settings(max_examples=examples(200))
def test_more_load_is_never_less_demand(said: list[PodSample], extra: float) -> None:
    live = [LivePod(NAMESPACE, f"p{index}", 3600.0) for index in range(len(said))]
    more = sample(rate=said[0].values[Signal.FIRST_TOKENS] + extra)

    before = measure(reading(*said), live, LIMIT, SETTINGS)
    after = measure(reading(more, *said[1:]), live, LIMIT, SETTINGS)

    assert value(after.arrivals) >= value(before.arrivals) * (1 - 1e-9)
