"""Input that looks fine field by field and is not: units, windows, heads that cannot be shared, prompts too long."""

from dataclasses import replace

import pytest

from firsttoken_sizing import Arrivals, Basis, Engine, Hardware, Infeasible, InvalidInput, SizingRequest, size
from firsttoken_sizing.profile import Latency, Point
from firsttoken_sizing.workload import Sparsity
from tests.fixtures.worked_examples import H100, call_center, call_center_profile


def with_points(*points: Point) -> SizingRequest:
    profile = replace(call_center_profile(), points=points)
    return replace(call_center(), profiles=(profile,), arrivals=Arrivals.CLOSED_LOOP)


def test_an_overload_window_is_not_believed_where_the_file_has_no_end_to_end_latency() -> None:
    sound = Point(5.2, concurrency=10, ttft=Latency(mean=220, p95=268), itl=Latency(mean=8.56))
    window = Point(60, concurrency=200, ttft=Latency(mean=250, p95=280), itl=Latency(mean=3))

    assert size(with_points(sound, window)).requests_per_second_per_replica == 5.2


@pytest.mark.parametrize("unit", [1e-3, 1e6], ids=["seconds", "nanoseconds"])
def test_latencies_in_another_unit_are_refused_by_littles_law(unit: float) -> None:
    point = Point(5.2, concurrency=10, ttft=Latency(mean=220 * unit), itl=Latency(mean=8.56 * unit))

    with pytest.raises(InvalidInput, match=r"^benchmark .*Little's law says 1; check the units"):
        size(with_points(point))


def test_gpus_that_cannot_share_the_heads_are_refused_by_name() -> None:
    odd = Hardware(gpus=(H100,), tensor_parallel=3)

    with pytest.raises(InvalidInput, match=r"^hardware\.tensorParallel: 3 GPUs cannot share .*use 1 or 2 or 4 or 8$"):
        size(replace(call_center(), hardware=odd))


def test_gpus_that_cannot_share_the_heads_are_not_offered() -> None:
    # phi-4 has 10 KV heads.
    request = replace(call_center(), model="microsoft/phi-4", precision="BF16", profiles=())
    sizing = size(request)
    seen = {a.configuration.tensor_parallel for a in sizing.alternatives}

    assert sizing.configuration is not None
    assert {*seen, sizing.configuration.tensor_parallel} <= {1, 2}


def test_a_prompt_that_no_replica_can_hold_is_infeasible_although_the_mean_fits() -> None:
    request = replace(
        call_center(),
        engine=Engine.VLLM,
        precision="BF16",
        hardware=Hardware(gpus=("L4",), tensor_parallel=1, pipeline_parallel=1),
        workload=replace(call_center().workload, input_tokens=500, input_tokens_p99=6000, output_tokens=2),
        profiles=(),
    )

    assert size(request).cause is Infeasible.KV_CACHE_TOO_SMALL


def test_an_optimization_that_was_not_measured_widens_the_band() -> None:
    plain, sparse = size(call_center()), size(replace(call_center(), sparsity=Sparsity.TWO_OF_FOUR))

    assert sparse.basis is Basis.EXTRAPOLATED
    assert sparse.error_band_percent > max(20.0, plain.error_band_percent)
