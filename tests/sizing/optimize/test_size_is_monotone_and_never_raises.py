from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_sizing import Arrivals, ConfigurationKey, Limit, Percentile, Sla, SlaMode, Workload, size
from tests.fixtures.worked_examples import H100, LLAMA_8B, call_center

PINNED = ConfigurationKey(LLAMA_8B, H100, "FP8", 1)
arrivals = st.sampled_from(Arrivals)
percentiles = st.sampled_from(Percentile)
limits = st.builds(Limit, st.floats(1, 1e5), percentiles)
quick = settings(max_examples=25, deadline=None)


@quick
@given(
    st.floats(1, 20_000),
    st.floats(1, 20_000),
    st.floats(0, 99),
    st.floats(1e-3, 1e5),
    arrivals,
    limits,
    st.one_of(st.none(), limits),
    st.one_of(st.none(), limits),
)
def test_any_finite_input_has_an_answer(
    prompt: float,
    output: float,
    cached: float,
    peak: float,
    reading: Arrivals,
    ttft: Limit,
    itl: Limit | None,
    total: Limit | None,
) -> None:
    workload = Workload(prompt, output, cached_input_percent=cached, peak_requests_per_second=peak)
    sla = Sla(SlaMode.STREAMING, ttft, itl, total)

    sizing = size(replace(call_center(arrivals=reading), workload=workload, sla=sla, pinned=PINNED))

    assert sizing.feasible is (sizing.replicas >= 1) is (sizing.cause is None)
    if sizing.feasible:
        assert sizing.table is not None
        assert sizing.table.replicas_for(peak) == sizing.replicas
        assert sizing.replicas * sizing.requests_per_second_per_replica >= peak * (1 - 1e-6)


@quick
@given(st.floats(0.1, 1e4), st.floats(0.1, 1e4), arrivals)
def test_more_load_never_needs_fewer_gpus(first: float, second: float, reading: Arrivals) -> None:
    low, high = (size(call_center(peak=peak, arrivals=reading)) for peak in sorted((first, second)))

    assert low.gpus <= high.gpus
    assert low.servers <= high.servers


@quick
@given(st.floats(50, 5000), st.floats(50, 5000), arrivals, percentiles)
def test_a_looser_limit_never_needs_more_replicas(
    first: float, second: float, reading: Arrivals, percentile: Percentile
) -> None:
    tight, loose = (
        size(replace(call_center(ttft_milliseconds=limit, percentile=percentile, arrivals=reading), pinned=PINNED))
        for limit in sorted((first, second))
    )

    if tight.feasible:
        assert loose.feasible
        assert loose.replicas <= tight.replicas
