"""Worked examples 3, 4, 6 and 7 of docs/design/mission.md, from fixtures of our own and from the original file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from firsttoken_sizing import (
    Arrivals,
    Basis,
    ConfigurationKey,
    Hardware,
    Infeasible,
    Latency,
    Limit,
    Load,
    Percentile,
    Point,
    Profile,
    SizingRequest,
    Sla,
    Workload,
    size,
)
from firsttoken_sizing.benchmarks import read_benchmarks
from tests.fixtures.worked_examples import H100, call_center, call_center_profile

NIM_CSV = Path(__file__).resolve().parents[3] / "shared/samples/dli/nim.csv"
GPT_43B = "nvidia/nemo-gpt-43b"


@pytest.mark.parametrize("percentile", [Percentile.MEAN, Percentile.P95], ids=str)
def test_example_3_ttft_300_ms_takes_39_replicas_on_5_servers(percentile: Percentile) -> None:
    sizing = size(call_center(percentile=percentile))

    assert sizing.configuration is not None
    assert sizing.configuration.tensor_parallel == 1
    assert sizing.concurrency_per_replica == 10
    assert sizing.requests_per_second_per_server == pytest.approx(41.56, abs=0.01)
    assert (sizing.replicas, sizing.gpus, sizing.servers) == (39, 39, 5)
    assert sizing.peak_requests_per_second / sizing.requests_per_second_per_server == pytest.approx(4.8, abs=0.05)
    assert sizing.basis is Basis.MEASURED
    assert sizing.ttft.mean == 220.8
    assert sizing.ttft.p95 == 268.0


def test_example_3_table_gives_the_operator_39_at_the_peak_and_6_at_the_average() -> None:
    sizing = size(call_center())

    assert sizing.table is not None
    assert sizing.table.replicas_for(200) == sizing.replicas == 39
    assert sizing.table.replicas_for(28.54) == sizing.replicas_for_average == 6
    assert sizing.table.at(5.1954).ttft.p95 == pytest.approx(268.0)


def test_example_3_in_poisson_takes_about_16_replicas_and_says_it_is_fitted() -> None:
    sizing = size(call_center(arrivals=Arrivals.POISSON))

    assert 15 <= sizing.replicas <= 17
    assert 11.8 <= sizing.requests_per_second_per_replica <= 13
    assert sizing.basis is Basis.FITTED
    assert sizing.ttft.p95 is not None
    assert sizing.ttft.p95 <= 300


def test_example_4_ttft_500_ms_takes_23_replicas_on_3_servers() -> None:
    sizing = size(call_center(ttft_milliseconds=500, percentile=Percentile.MEAN))

    assert sizing.concurrency_per_replica == 25
    assert sizing.requests_per_second_per_server == pytest.approx(70.7, abs=0.05)
    assert (sizing.replicas, sizing.servers) == (23, 3)
    assert sizing.peak_requests_per_second / sizing.requests_per_second_per_server == pytest.approx(2.8, abs=0.05)
    assert sizing.basis is Basis.MEASURED


def gpt_43b(input_tokens: float) -> SizingRequest:
    """Worked example 6: one measured point of a TP2 replica."""
    point = Point(0.6, ttft=Latency(mean=2606), itl=Latency(mean=21.4))
    key = ConfigurationKey(GPT_43B, H100, "BF16", tensor_parallel=2)
    return SizingRequest(
        model=GPT_43B,
        precision="BF16",
        workload=Workload(input_tokens=input_tokens, output_tokens=500, peak_requests_per_second=31),
        sla=Sla(time_to_first_token=Limit(3000, Percentile.MEAN)),
        hardware=Hardware(gpus=(H100,)),
        arrivals=Arrivals.CLOSED_LOOP,
        profiles=(Profile("gpt-43b", key, 3500, 500, Load.CLOSED_LOOP, (point,)),),
    )


def test_example_6_one_measured_point_of_gpt_43b_gives_52_replicas_on_13_servers() -> None:
    sizing = size(gpt_43b(input_tokens=3500))

    assert (sizing.replicas, sizing.gpus, sizing.servers) == (52, 104, 13)
    assert sizing.requests_per_second_per_server == pytest.approx(2.4)
    assert sizing.basis is Basis.MEASURED
    assert sizing.itl.mean is not None
    assert 500 * sizing.itl.mean / 1000 == pytest.approx(10.7)


def test_example_6_with_words_instead_of_tokens_exceeds_the_context_window() -> None:
    sizing = size(gpt_43b(input_tokens=3500 / 0.75))

    assert not sizing.feasible
    assert sizing.cause is Infeasible.CONTEXT_WINDOW_EXCEEDED
    assert "4096" in sizing.reason


def test_example_7_prints_three_costs_of_a_thousand_prompts() -> None:
    cost = size(call_center()).cost

    assert cost is not None
    assert cost.per_year == pytest.approx(5 * 119_000)
    assert cost.per_thousand_requests_at_peak_fractional == pytest.approx(0.0908, abs=5e-5)
    assert cost.per_thousand_requests_at_peak == pytest.approx(0.0943, abs=5e-5)
    assert cost.per_thousand_requests_at_average == pytest.approx(0.66, abs=5e-3)


@pytest.mark.parametrize(
    ("limit", "concurrency", "per_server", "replicas"), [(300, 10, 41.6, 39), (500, 25, 70.7, 23)], ids=["3", "4"]
)
def test_examples_3_and_4_from_the_original_file(
    limit: float, concurrency: int, per_server: float, replicas: int
) -> None:
    if not NIM_CSV.is_file():
        pytest.skip("needs ../shared/samples/dli/nim.csv")
    profiles = read_benchmarks(NIM_CSV).profiles
    request = call_center(ttft_milliseconds=limit, percentile=Percentile.MEAN)

    sizing = size(replace(request, hardware=Hardware(gpus=(H100,), tensor_parallel=1), profiles=tuple(profiles)))

    assert sizing.basis is Basis.MEASURED
    assert sizing.concurrency_per_replica == concurrency
    assert sizing.requests_per_second_per_server == pytest.approx(per_server, abs=0.05)
    assert sizing.replicas == replicas


def test_the_fixture_states_p95_at_concurrency_10_only() -> None:
    known = [p.concurrency for p in call_center_profile().points if p.ttft.p95 is not None]

    assert known == [10]
