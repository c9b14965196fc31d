"""Behind a router that evens out arrivals one replica of many carries more than one alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing import (
    Arrivals,
    Batching,
    ConfigurationKey,
    Engine,
    Hardware,
    Limit,
    Percentile,
    Routing,
    Sizing,
    SizingRequest,
    Sla,
    Workload,
    size,
)
from tests.fixtures.worked_examples import H100, LLAMA_8B, call_center

PINNED = ConfigurationKey(LLAMA_8B, H100, "FP8", 1)


def sized(routing: Routing, arrivals: Arrivals = Arrivals.POISSON, peak: float = 200) -> Sizing:
    request = call_center(ttft_milliseconds=100, arrivals=arrivals, peak=peak)
    return size(replace(request, workload=replace(request.workload, routing=routing), pinned=PINNED))


@pytest.fixture(scope="module")
def pooled() -> Sizing:
    return sized(Routing.LEAST_LOADED)


@pytest.mark.slow
def test_least_loaded_takes_fewer_replicas_than_random(pooled: Sizing) -> None:
    assert pooled.replicas < sized(Routing.RANDOM).replicas


def test_one_replica_has_no_other_to_share_with() -> None:
    assert sized(Routing.LEAST_LOADED, peak=5).requests_per_second_per_replica == pytest.approx(
        sized(Routing.RANDOM, peak=5).requests_per_second_per_replica
    )


def test_the_table_carries_the_declared_loads_on_as_many_replicas_as_sized(pooled: Sizing) -> None:
    assert pooled.table is not None
    assert pooled.replicas_for_average is not None
    assert pooled.table.replicas_for(200) == pooled.replicas
    # The table knows the fleet of the peak and one replica alone, and is careful between them.
    assert pooled.replicas_for_average <= pooled.table.replicas_for(28.54) <= pooled.replicas_for_average + 1


def test_noise_of_the_model_never_lets_the_table_serve_the_peak_with_fewer_replicas() -> None:
    """Two output tokens: ITL is one decode step, long or short, so that its P95 jumps between the two."""
    request = SizingRequest(
        model="google/gemma-2-9b-it",
        workload=Workload(200, 2, input_tokens_p99=204, peak_requests_per_second=30, routing=Routing.ROUND_ROBIN),
        sla=Sla(
            time_to_first_token=Limit(1000, Percentile.P95),
            inter_token_latency=Limit(20, Percentile.P95),
        ),
        hardware=Hardware(gpus=("A10G",)),
        engine=Engine.SGLANG,
        batchings=(Batching.IN_FLIGHT,),
        pinned=ConfigurationKey("google/gemma-2-9b-it", "A10G", "BF16", 4),
    )

    sizing = size(request)

    assert sizing.table is not None
    assert sizing.table.replicas_for(30) == sizing.replicas


def test_a_small_fleet_is_not_credited_with_what_a_large_one_shares(pooled: Sizing) -> None:
    table = pooled.table
    assert table is not None
    capacities = [table.capacity_of_one_among(n) for n in range(1, pooled.replicas + 3)]

    assert capacities == sorted(capacities)
    assert capacities[0] == table.capacity_alone_requests_per_second
    assert capacities[-1] == capacities[pooled.replicas - 1] == table.capacity_requests_per_second
    assert capacities[0] < capacities[-1]
    assert [table.replicas_for(n * c) for n, c in enumerate(capacities, 1)] == list(range(1, pooled.replicas + 3))


def test_a_closed_loop_has_no_arrivals_to_even_out() -> None:
    random, least = (sized(routing, Arrivals.CLOSED_LOOP) for routing in (Routing.RANDOM, Routing.LEAST_LOADED))

    assert random.replicas == least.replicas
