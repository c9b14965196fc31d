"""`vllm bench serve`: what its rate and its concurrency mean, and what is left of a run without either."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firsttoken_sizing.benchmarks import Declared, read_benchmarks
from firsttoken_sizing.errors import InvalidInput, UnreadableBenchmark
from firsttoken_sizing.profile import ConfigurationKey, Latency, Load

FIXTURE = Path(__file__).parents[2] / "fixtures" / "benchmarks" / "vllm-bench-rate6.json"
SAMPLE = (
    Path(__file__).resolve().parents[4]
    / "shared"
    / "samples"
    / "made-up"
    / "vllm-4.0qps-Llama-3.1-8B-Instruct-20261121-080000.json"
)
DECLARED = Declared(precision="fp8", engine="vLLM", engine_version="0.33.0")

Change = Callable[[dict[str, Any]], object]
Edited = Callable[[Path, Change], Path]


def at_concurrency_16(data: dict[str, Any]) -> None:
    data.update(request_rate="inf", max_concurrency=16)


def test_a_rate_is_poisson_arrivals() -> None:
    (profile,) = read_benchmarks(FIXTURE, DECLARED).profiles
    (point,) = profile.points

    assert profile.load is Load.POISSON
    assert (point.offered_requests_per_second, point.requests_per_second) == (6, 5.8309)
    assert point.concurrency is None
    assert (profile.input_tokens, profile.output_tokens) == (1000, 200)
    assert point.ttft == Latency(mean=90, p50=85.5, p95=130.5, p99=153)


def test_the_time_per_output_token_is_the_itl_and_gaps_between_chunks_are_not() -> None:
    (profile,) = read_benchmarks(FIXTURE, DECLARED).profiles

    assert profile.points[0].itl.mean == 13


def test_gpu_and_parallelism_are_read_where_metadata_noted_them() -> None:
    (profile,) = read_benchmarks(FIXTURE, DECLARED).profiles

    assert profile.key == ConfigurationKey("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB", "FP8", 2, 1)
    with pytest.raises(InvalidInput, match=r"4 contradicts .*, which says 2"):
        read_benchmarks(FIXTURE, Declared(precision="fp8", tensor_parallel=4))


def test_what_metadata_did_not_note_is_asked_for(edited: Edited) -> None:
    with pytest.raises(InvalidInput, match="add --tensor-parallel"):
        read_benchmarks(edited(FIXTURE, lambda d: d.pop("tp")), DECLARED)
    with pytest.raises(InvalidInput, match="add --gpu"):
        read_benchmarks(edited(FIXTURE, lambda d: d.pop("gpu")), DECLARED)


def test_a_declared_gpu_stands_in_for_a_noted_name_that_is_unknown(edited: Edited) -> None:
    path = edited(FIXTURE, lambda d: d.update(gpu="our big box"))

    assert read_benchmarks(path, Declared(gpu="L40S", precision="fp8")).profiles[0].key.gpu == "L40S"


def test_an_infinite_rate_with_a_concurrency_is_a_closed_loop(edited: Edited) -> None:
    (profile,) = read_benchmarks(edited(FIXTURE, at_concurrency_16), DECLARED).profiles

    assert profile.load is Load.CLOSED_LOOP
    assert profile.points[0].concurrency == 16
    assert profile.points[0].offered_requests_per_second is None


@pytest.mark.parametrize("infinite", ["inf", float("inf")])
def test_a_run_that_sends_everything_at_once_keeps_its_throughput_only(edited: Edited, infinite: object) -> None:
    result = read_benchmarks(edited(FIXTURE, lambda d: d.update(request_rate=infinite)), DECLARED)
    (point,) = result.profiles[0].points

    assert result.profiles[0].load is Load.CLOSED_LOOP
    assert point.requests_per_second == 5.8309
    assert point.itl.mean == 13
    assert point.ttft == point.end_to_end == Latency()
    assert point.concurrency == pytest.approx(5.8309 * 0.013 * 199, rel=1e-5)
    assert "TTFT and end-to-end latency are left out" in result.remarks[0].text


def test_an_end_to_end_latency_that_was_not_asked_for_is_absent_and_still_checked(edited: Edited) -> None:
    def without_e2el(data: dict[str, Any]) -> None:
        at_concurrency_16(data)
        for name in [name for name in data if "e2el" in name]:
            del data[name]

    def too_short(data: dict[str, Any]) -> None:
        without_e2el(data)
        data["request_throughput"] = 3.0

    assert read_benchmarks(edited(FIXTURE, without_e2el), DECLARED).profiles[0].points[0].end_to_end == Latency()
    assert "overload window" in read_benchmarks(edited(FIXTURE, too_short), DECLARED).refused[0].reason


def test_a_latency_of_zero_is_one_that_was_not_measured(edited: Edited) -> None:
    def of_one_token(data: dict[str, Any]) -> None:
        data["total_output_tokens"] = data["completed"]
        data |= {name: 0.0 for name in data if "tpot" in name}

    (profile,) = read_benchmarks(edited(FIXTURE, of_one_token), DECLARED).profiles

    assert profile.output_tokens == 1
    assert profile.points[0].itl == Latency()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d.update(burstiness=0.5), "with burstiness 0.5, which is neither"),
        (lambda d: d.update(max_concurrency=31), "at most 31 in flight, which was reached"),
        (lambda d: d.update(max_concurrency=40) or d.pop("max_concurrent_requests"), "which was reached"),
        (lambda d: d.update(request_rate="inf", ramp_up_strategy="linear"), "ramped up"),
        (lambda d: d.update(completed=0, failed=600), "no request succeeded"),
        (lambda d: d.update(failed=300), "300 of 900 requests failed"),
        (lambda d: d.update(num_prompts=1200) or d.pop("failed"), "600 of 1200 requests failed"),
        (lambda d: d.update(request_rate=9.0), "overload: 5.8309 of 9 requests/s were completed"),
        (lambda d: d.update(request_rate="inf", mean_tpot_ms=0.0), "does not say the time per output token"),
    ],
)
def test_a_run_that_cannot_be_used_is_refused_with_its_reason(edited: Edited, change: Change, problem: str) -> None:
    result = read_benchmarks(edited(FIXTURE, change), DECLARED)

    assert result.profiles == ()
    assert problem in result.refused[0].reason


def test_a_cap_that_was_never_reached_changes_nothing(edited: Edited) -> None:
    (profile,) = read_benchmarks(edited(FIXTURE, lambda d: d.update(max_concurrency=64)), DECLARED).profiles

    assert profile.load is Load.POISSON


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d.update(mean_ttft_ms=float("nan")), "mean_ttft_ms is not a finite"),
        (lambda d: d.update(request_rate="fast"), "request_rate is not a number"),
        (lambda d: d.pop("completed"), "completed is missing"),
        (lambda d: d.update(total_output_tokens=0), "total_output_tokens is not a finite number above 0"),
        (lambda d: d.update(tp="1.5"), "tp is not a whole number"),
    ],
)
def test_a_bad_value_makes_the_file_unreadable(edited: Edited, change: Change, problem: str) -> None:
    with pytest.raises(UnreadableBenchmark, match=problem):
        read_benchmarks(edited(FIXTURE, change), DECLARED)


def test_the_sample_of_the_format_is_read() -> None:
    if not SAMPLE.is_file():
        pytest.skip("../shared/samples is not here")
    (profile,) = read_benchmarks(SAMPLE, DECLARED).profiles

    assert profile.key == ConfigurationKey("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB", "FP8", 1, 1)
    assert (profile.load, profile.points[0].offered_requests_per_second) == (Load.POISSON, 4)
