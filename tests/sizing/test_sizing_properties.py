"""Properties of every sizing, whatever is asked: an answer or a refusal, and no answer that moves the wrong way.

Most examples are read as a closed loop, which takes milliseconds; the Poisson reading has fewer.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_sizing import (
    Arrivals,
    ConfigurationKey,
    Hardware,
    InvalidInput,
    Limit,
    Percentile,
    Pricing,
    Routing,
    Sizing,
    SizingRequest,
    Sla,
    SlaMode,
    Workload,
    size,
    sizing_json,
)
from firsttoken_sizing.catalog import gpus, models
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.memory import replica_memory
from firsttoken_sizing.workload import Batching, OfflineJob
from tests.fixtures.hypothesis_scale import examples
from tests.fixtures.worked_examples import H100, LLAMA_8B, call_center

PINNED = ConfigurationKey(LLAMA_8B, H100, "FP8", 1)
PERCENTILES = st.sampled_from(Percentile)
LIMITS = st.builds(Limit, st.floats(1, 1e5), PERCENTILES)

quick = settings(max_examples=examples(40))
few = settings(max_examples=examples(5))

REQUESTS = st.builds(
    SizingRequest,
    model=st.sampled_from([LLAMA_8B, "meta/llama3-70b-instruct", "mistralai/Mixtral-8x7B-Instruct-v0.1"]),
    workload=st.builds(
        Workload,
        input_tokens=st.floats(1, 5000),
        output_tokens=st.floats(1, 2000),
        cached_input_percent=st.floats(0, 99),
        peak_requests_per_second=st.floats(0.01, 1e4),
        routing=st.sampled_from(Routing),
    ),
    sla=st.builds(Sla, st.just(SlaMode.STREAMING), LIMITS, st.none() | LIMITS, st.none() | LIMITS),
    hardware=st.builds(
        Hardware,
        gpus=st.lists(st.sampled_from([H100, "L40S", "A100-PCIe-80GB"]), min_size=1, max_size=2).map(tuple),
        tensor_parallel=st.none() | st.integers(1, 16),
        pipeline_parallel=st.none() | st.integers(1, 4),
        gpus_per_server=st.sampled_from([1, 4, 8, 72]),
    ),
    precision=st.sampled_from([None, "FP8", "BF16", "INT4"]),
    arrivals=st.just(Arrivals.CLOSED_LOOP),
    pricing=st.dictionaries(st.just(H100), st.builds(Pricing, st.none() | st.floats(0, 100))),
    engine=st.sampled_from(Engine),
    batchings=st.lists(st.sampled_from(Batching), unique=True).map(tuple),
)
NUMBERS = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**70), 2**70), st.just(0))
FIELDS = {
    "workload": (
        "input_tokens",
        "output_tokens",
        "input_tokens_p99",
        "output_tokens_p99",
        "cached_input_percent",
        "average_requests_per_second",
        "peak_requests_per_second",
        "concurrent_requests",
    ),
    "hardware": ("tensor_parallel", "pipeline_parallel", "gpus_per_server"),
}


def answer_or_refusal(request: SizingRequest) -> Sizing | None:
    """The sizing; None where the input is refused in one line that names a field."""
    try:
        sizing = size(request)
    except InvalidInput as error:
        refusal = error
    else:
        json.dumps(sizing_json(sizing), allow_nan=False)
        assert sizing.feasible is (sizing.replicas >= 1) is (sizing.cause is None)
        return sizing
    assert refusal.field
    assert "\n" not in str(refusal)
    return None


@settings(max_examples=examples(80))
@given(REQUESTS)
def test_any_sensible_request_has_an_answer_or_a_refusal_that_names_the_field(request: SizingRequest) -> None:
    answer_or_refusal(request)


@settings(max_examples=examples(150))
@given(REQUESTS, st.sampled_from([(part, name) for part, names in FIELDS.items() for name in names]), NUMBERS)
def test_any_number_in_any_field_has_an_answer_or_a_refusal(
    request: SizingRequest, field: tuple[str, str], number: float
) -> None:
    part, name = field

    answer_or_refusal(replace(request, **{part: replace(getattr(request, part), **{name: number})}))


@quick
@given(REQUESTS, NUMBERS, NUMBERS, NUMBERS)
def test_any_job_and_price_has_an_answer_or_a_refusal(
    request: SizingRequest, requests: float, hours: float, price: float
) -> None:
    job = OfflineJob(int(requests), hours)
    workload = replace(request.workload, peak_requests_per_second=None, offline=job)
    pricing = {H100: Pricing(gpu_hour=price, input_per_million_tokens=hours)}

    answer_or_refusal(replace(request, workload=workload, sla=Sla(SlaMode.OFFLINE), pricing=pricing))
    answer_or_refusal(replace(request, pricing=pricing))


@quick
@given(
    st.floats(1, 5000),
    st.floats(1, 2000),
    st.floats(0, 99),
    st.floats(1e-3, 1e5),
    st.none() | LIMITS,
    st.none() | LIMITS,
    st.sampled_from(["FP8", "BF16", None]),
    st.sampled_from([H100, "L40S"]),
)
def test_a_sensible_question_is_answered_and_carries_its_load(
    prompt: float,
    output: float,
    cached: float,
    peak: float,
    itl: Limit | None,
    total: Limit | None,
    precision: str | None,
    gpu: str,
) -> None:
    request = replace(
        call_center(),
        workload=Workload(prompt, output, cached_input_percent=cached, peak_requests_per_second=peak),
        sla=Sla(SlaMode.STREAMING, Limit(2000, Percentile.P95), itl, total),
        precision=precision,
        hardware=Hardware(gpus=(gpu,)),
    )

    sizing = answer_or_refusal(request)

    if sizing is not None and sizing.feasible:
        assert sizing.table is not None
        assert sizing.configuration is not None
        assert sizing.table.replicas_for(peak) == sizing.replicas
        assert sizing.replicas * sizing.requests_per_second_per_replica >= peak * (1 - 1e-6)
        assert sizing.gpus == sizing.replicas * sizing.configuration.gpus_per_replica
        assert 0 < sizing.utilization_cap_percent <= 100


@few
@given(
    st.floats(1, 5000),
    st.floats(1, 1000),
    st.floats(0, 99),
    st.floats(1e-3, 1e4),
    st.floats(20, 5000),
    st.sampled_from(Routing),
)
def test_poisson_too_has_an_answer_for_any_load(
    prompt: float, output: float, cached: float, peak: float, ttft: float, routing: Routing
) -> None:
    workload = Workload(prompt, output, cached_input_percent=cached, peak_requests_per_second=peak, routing=routing)
    request = replace(call_center(ttft_milliseconds=ttft, arrivals=Arrivals.POISSON), workload=workload, pinned=PINNED)

    sizing = answer_or_refusal(request)

    assert sizing is not None
    if sizing.feasible:
        assert sizing.replicas * sizing.requests_per_second_per_replica >= peak * (1 - 1e-6)


@quick
@given(st.floats(0.1, 1e4), st.floats(0.1, 1e4), st.floats(30, 3000))
def test_more_load_never_needs_fewer_gpus(first: float, second: float, ttft: float) -> None:
    low, high = (size(call_center(peak=peak, ttft_milliseconds=ttft)) for peak in sorted((first, second)))

    assert low.feasible is high.feasible
    assert low.gpus <= high.gpus
    assert low.servers <= high.servers


@pytest.mark.slow
@few
@given(st.floats(0.1, 500), st.floats(0.1, 500), st.sampled_from(Routing))
def test_more_load_never_needs_fewer_replicas_of_a_configuration(first: float, second: float, routing: Routing) -> None:
    def replicas(peak: float) -> int:
        request = call_center(peak=peak, ttft_milliseconds=100, arrivals=Arrivals.POISSON)
        return size(replace(request, workload=replace(request.workload, routing=routing), pinned=PINNED)).replicas

    low, high = sorted((first, second))

    assert replicas(low) <= replicas(high)


@quick
@given(st.floats(20, 5000), st.floats(20, 5000), PERCENTILES, st.sampled_from(["time_to_first_token", "end_to_end"]))
def test_a_looser_limit_never_needs_more_gpus(first: float, second: float, percentile: Percentile, limit: str) -> None:
    """Nothing is measured on this GPU, so the cheapest wins; what is better known may win at a higher price."""
    tight, loose = (
        size(
            replace(
                call_center(),
                hardware=Hardware(gpus=("H200-SXM-141GB",)),
                sla=replace(
                    Sla(time_to_first_token=Limit(5000, Percentile.P95)), **{limit: Limit(milliseconds, percentile)}
                ),
            )
        )
        for milliseconds in sorted((first, second))
    )

    if tight.feasible:
        assert loose.feasible
        assert loose.gpus <= tight.gpus


@pytest.mark.slow
@few
@given(st.floats(50, 2000), st.floats(50, 2000), PERCENTILES)
def test_a_looser_limit_never_needs_more_replicas_in_poisson(
    first: float, second: float, percentile: Percentile
) -> None:
    tight, loose = (
        size(
            replace(
                call_center(ttft_milliseconds=limit, percentile=percentile, arrivals=Arrivals.POISSON), pinned=PINNED
            )
        )
        for limit in sorted((first, second))
    )

    if tight.feasible:
        assert loose.feasible
        assert loose.replicas <= tight.replicas


@quick
@given(st.sampled_from(models()), st.sampled_from(gpus()), st.sampled_from(["BF16", "FP8"]), st.sampled_from(Engine))
def test_more_gpus_a_replica_never_hold_fewer_tokens(
    model: object, gpu: object, precision: str, engine: Engine
) -> None:
    def tokens(tensor_parallel: int, pipeline_parallel: int) -> int:
        return replica_memory(
            model,  # type: ignore[arg-type]
            gpu,  # type: ignore[arg-type]
            precision=precision,
            tensor_parallel=tensor_parallel,
            pipeline_parallel=pipeline_parallel,
            input_tokens=1000,
            output_tokens=100,
            engine=engine,
        ).kv_cache_tokens

    by_tensor = [tokens(n, 1) for n in (1, 2, 4, 8)]
    by_pipeline = [tokens(1, n) for n in (1, 2, 4, 8)]

    assert by_tensor == sorted(by_tensor)
    assert by_pipeline == sorted(by_pipeline)


@pytest.mark.parametrize("arrivals", list(Arrivals), ids=str)
def test_the_same_question_has_the_same_answer(arrivals: Arrivals) -> None:
    first, second = (sizing_json(size(call_center(arrivals=arrivals))) for _ in range(2))

    assert first == second


def test_the_capacity_of_a_replica_does_not_depend_on_the_load() -> None:
    """Random numbers are common to all questions: two loads differ by the load, not by the draw."""
    rates = {
        size(call_center(peak=peak, arrivals=Arrivals.POISSON)).requests_per_second_per_replica for peak in (7, 70)
    }

    assert len(rates) == 1
    assert all(math.isfinite(rate) for rate in rates)
