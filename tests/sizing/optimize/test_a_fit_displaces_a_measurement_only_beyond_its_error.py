from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_sizing import Arrivals, Basis, Hardware, Percentile, Pricing, Sizing, SizingRequest, size
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.profile import ConfigurationKey, Latency, Load, Point, Profile
from firsttoken_sizing.workload import Workload
from tests.fixtures.hypothesis_scale import examples
from tests.fixtures.worked_examples import DGX_H100, H100, call_center

PRICES = {"by GPUs": {}, "by server": {H100: DGX_H100}, "by GPU-hour": {H100: Pricing(gpu_hour=4.5)}}
H200 = "H200-SXM-141GB"
ON_TWO = Hardware(gpus=(H100,), tensor_parallel=2)


def question(pricing: dict[str, Pricing], peak: float = 200, *, saving_percent: float = 3.0) -> SizingRequest:
    """TTFT P95 of 500 ms: measured points carry it on TP1, and the shipped fit says that TP2 saves so much a request.

    The measured throughput is scaled until that is so, so that the test does not depend on the fit; ITL goes with it by
    Little's law.
    """
    request = call_center(ttft_milliseconds=500, peak=peak)
    a_gpu_of_tp2 = size(replace(request, hardware=ON_TWO)).requests_per_second_per_replica / 2
    a_gpu_of_tp1 = size(request_on(request, 1)).requests_per_second_per_replica
    factor = (1 - saving_percent / 100) * a_gpu_of_tp2 / a_gpu_of_tp1
    (profile,) = request.profiles
    points = tuple(slower(p, profile.output_tokens, factor) for p in profile.points)
    return replace(request, pricing=pricing, profiles=(replace(profile, points=points),))


def slower(point: Point, output_tokens: float, factor: float) -> Point:
    total, ttft = point.completed(output_tokens).end_to_end.mean, point.ttft.mean
    assert total is not None
    assert ttft is not None
    itl = (total / factor - ttft) / (output_tokens - 1)
    return replace(point, requests_per_second=factor * point.requests_per_second, itl=Latency(mean=itl))


def request_on(request: SizingRequest, tensor_parallel: int) -> SizingRequest:
    return replace(request, hardware=Hardware(gpus=(H100,), tensor_parallel=tensor_parallel))


def tensor_parallel(sizing: Sizing) -> int:
    assert sizing.configuration is not None
    return sizing.configuration.tensor_parallel


@pytest.mark.parametrize("pricing", PRICES.values(), ids=PRICES)
def test_fitted_gpus_that_save_less_than_their_error_do_not_beat_measured_ones(pricing: dict[str, Pricing]) -> None:
    sizing = size(question(pricing, peak=2000))

    (fitted,) = (a for a in sizing.alternatives if a.configuration.tensor_parallel == 2)
    assert (sizing.basis, tensor_parallel(sizing)) == (Basis.MEASURED, 1)
    assert fitted.gpus is not None
    assert fitted.gpus < sizing.gpus
    assert re.fullmatch(
        r"\d+ GPUs against \d+, but Fitted \(-\d+ to \+\d+ %\), and a saving of 3 % a request is inside that error;"
        " measure it to decide",
        fitted.reason,
    )


def test_a_saving_beyond_the_error_wins() -> None:
    sizing = size(question({}, saving_percent=60))

    assert tensor_parallel(sizing) == 2
    assert sizing.basis is Basis.FITTED
    assert any(a.configuration.tensor_parallel == 1 and "GPUs against" in a.reason for a in sizing.alternatives)


def test_a_saving_is_in_doubt_up_to_the_low_end_of_the_band() -> None:
    """Under a limit on latency a replica loses more than its steps do, and the band says so."""
    band = size(replace(question({}), hardware=ON_TWO, profiles=())).band
    assert band is not None
    lost_percent = 100 * (1 - band.low)

    doubted, beyond = (size(question({}, peak=2000, saving_percent=lost_percent + more)) for more in (-1, 1))

    assert tensor_parallel(doubted) == 1
    assert any("is inside that error" in a.reason for a in doubted.alternatives)
    assert tensor_parallel(beyond) == 2


@pytest.mark.parametrize("arrivals", list(Arrivals), ids=str)
def test_physics_alone_does_not_displace_a_fit_by_less_than_its_error(arrivals: Arrivals) -> None:
    """An H200 was never measured with this model: its price makes it a little cheaper a request, or much cheaper."""
    request = replace(call_center(arrivals=arrivals), profiles=(), pricing={})
    fitted, guessed = (size(replace(request, hardware=Hardware(gpus=(gpu,)))) for gpu in (H100, H200))
    assert guessed.band is not None
    a_gpu = [sizing.requests_per_second_per_replica * sizing.replicas / sizing.gpus for sizing in (fitted, guessed)]

    def chosen(saving: float) -> str:
        prices = {H100: Pricing(gpu_hour=1.0), H200: Pricing(gpu_hour=(1 - saving) * a_gpu[1] / a_gpu[0])}
        sizing = size(replace(request, pricing=prices, hardware=Hardware(gpus=(H100, H200))))
        assert sizing.configuration is not None
        return sizing.configuration.gpu

    assert chosen(0.5 * (1 - guessed.band.low)) == H100
    assert chosen(1 - 0.5 * guessed.band.low) == H200


@settings(max_examples=examples(10))
@given(slowdown=st.floats(0.05, 1), price=st.floats(0.01, 1))
def test_physics_alone_displaces_no_measurement_whatever_it_saves(slowdown: float, price: float) -> None:
    """However slow the measured replica is, and however cheap a GPU that this model was never measured on."""
    request = call_center(ttft_milliseconds=500, percentile=Percentile.MEAN)
    (profile,) = request.profiles
    points = tuple(slower(p, profile.output_tokens, slowdown) for p in profile.points)
    prices = {H100: Pricing(gpu_hour=1.0), H200: Pricing(gpu_hour=price)}
    hardware = Hardware(gpus=(H100, H200), tensor_parallel=1)

    sizing = size(replace(request, profiles=(replace(profile, points=points),), pricing=prices, hardware=hardware))

    assert sizing.configuration is not None
    assert (sizing.configuration.gpu, sizing.basis) == (H100, Basis.MEASURED)


def test_a_saving_of_physics_beyond_its_error_says_that_a_measurement_would_decide() -> None:
    request = call_center(ttft_milliseconds=500, percentile=Percentile.MEAN)
    (profile,) = request.profiles
    points = tuple(slower(p, profile.output_tokens, 0.05) for p in profile.points)
    hardware = Hardware(gpus=(H100, H200), tensor_parallel=1)

    sizing = size(replace(request, profiles=(replace(profile, points=points),), pricing={}, hardware=hardware))

    (guessed,) = (a for a in sizing.alternatives if a.configuration.gpu == H200)
    assert guessed.gpus is not None
    assert guessed.gpus < sizing.gpus
    assert re.search(r"physics alone \(.*no reason to leave what was measured; measure it to decide", guessed.reason)


def test_where_nothing_is_measured_the_cheapest_fit_wins() -> None:
    sizing = size(replace(question({}), profiles=()))

    assert sizing.basis is Basis.FITTED
    assert all(a.gpus >= sizing.gpus for a in sizing.alternatives if a.gpus is not None)


def test_a_declared_parallelism_is_taken_whatever_is_measured() -> None:
    assert tensor_parallel(size(replace(question({}), hardware=ON_TWO))) == 2


@settings(max_examples=examples(10))
@given(st.floats(0.5, 500), st.floats(0.5, 500))
def test_the_doubt_does_not_depend_on_the_load(first: float, second: float) -> None:
    low, high = (size(question({}, peak)) for peak in sorted((first, second)))

    assert tensor_parallel(low) == tensor_parallel(high) == 1
    assert low.gpus <= high.gpus


@pytest.mark.parametrize("known", [("mean", "p95"), ("mean", "p50", "p99"), ("mean", "p50")], ids=", ".join)
def test_physics_alone_displaces_no_points_whatever_percentile_their_tool_reports(
    known: tuple[str, ...],
) -> None:
    """The engine of nothing shipped; `vllm bench serve` reports mean, median and P99, and the limit is on P95."""
    every = Latency(mean=60, p50=55, p95=150, p99=200)
    ttft = Latency(**{name: getattr(every, name) for name in known})
    points = tuple(
        Point(rate, offered_requests_per_second=rate, ttft=ttft, itl=Latency(mean=12))
        for rate in (5.0, 10.0, 15.0, 20.0)
    )
    key = ConfigurationKey("meta-llama/Llama-3.1-8B-Instruct", H100, "BF16", 1)
    request = replace(
        call_center(arrivals=Arrivals.POISSON, ttft_milliseconds=300),
        model=key.model,
        precision="BF16",
        engine=Engine.VLLM,
        workload=Workload(input_tokens=500, output_tokens=100, peak_requests_per_second=200),
        profiles=(Profile("own", key, 500, 100, Load.POISSON, points, engine="vLLM"),),
    )

    sizing = size(request)

    assert tensor_parallel(sizing) == 1
    assert sizing.requests_per_second_per_replica == 20
    assert (sizing.basis is Basis.MEASURED) == (known[-1] in ("p95", "p99"))
    assert not any("no measurement of" in warning for warning in sizing.warnings)
