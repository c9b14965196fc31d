"""A stage of inference-perf: seconds, an open loop by default, and three layouts of the input length."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firsttoken_sizing.benchmarks import Declared, read_benchmarks
from firsttoken_sizing.errors import InvalidInput, UnreadableBenchmark
from firsttoken_sizing.profile import Latency, Load

FIXTURE = Path(__file__).parents[2] / "fixtures" / "benchmarks" / "inference-perf-stage0-rate5.json"
SAMPLE = (
    Path(__file__).resolve().parents[4]
    / "shared"
    / "samples"
    / "made-up"
    / "inference-perf-stage_0_lifecycle_metrics.json"
)
DECLARED = Declared(model="llama-3.1-8b", gpu="L40S", precision="bf16", tensor_parallel=1)

Change = Callable[[dict[str, Any]], object]
Edited = Callable[[Path, Change], Path]


def test_a_rate_is_poisson_arrivals_as_they_were_sent() -> None:
    result = read_benchmarks(FIXTURE, DECLARED)
    (profile,) = result.profiles
    (point,) = profile.points

    assert profile.load is Load.POISSON
    assert (point.offered_requests_per_second, point.requests_per_second) == (4.98, 4.8)
    assert [remark.text for remark in result.remarks] == ["3 of 300 requests failed; the figures are of the others"]


def test_seconds_become_milliseconds() -> None:
    point = read_benchmarks(FIXTURE, DECLARED).profiles[0].points[0]

    assert point.ttft == Latency(mean=88, p50=83.6, p90=114.4, p95=127.6, p99=149.6)
    assert point.itl.mean == 12.5  # not inter_token_latency, the gaps between chunks
    assert point.end_to_end.mean == pytest.approx(88 + 199 * 12.5)


def test_the_model_is_asked_for() -> None:
    with pytest.raises(InvalidInput, match="does not say which model was measured; add --model NAME"):
        read_benchmarks(FIXTURE, Declared(gpu="L40S", precision="bf16", tensor_parallel=1))


def test_a_concurrency_is_a_closed_loop(edited: Edited) -> None:
    path = edited(FIXTURE, lambda d: d["load_summary"].update(concurrency=12, requested_rate=None, achieved_rate=None))
    (profile,) = read_benchmarks(path, DECLARED).profiles

    assert (profile.load, profile.points[0].concurrency) == (Load.CLOSED_LOOP, 12)


@pytest.mark.parametrize(
    "layout",
    [
        {"prompt_len": {"mean": 1011.0}},
        {"prompt_tokens": {"total": {"mean": 1011.0}, "cached": None}},
        {"prompt_tokens": {"total": 300267.0, "cached": 0.0, "mean": 1011.0}},
    ],
    ids=["prompt_len", "statistics", "a sum"],
)
def test_the_input_length_is_read_in_the_layout_of_any_release(edited: Edited, layout: dict[str, Any]) -> None:
    def as_released(data: dict[str, Any]) -> None:
        del data["successes"]["prompt_tokens"]
        data["successes"] |= layout

    assert read_benchmarks(edited(FIXTURE, as_released), DECLARED).profiles[0].input_tokens == 1011


def test_output_tokens_that_the_server_counted_win(edited: Edited) -> None:
    path = edited(FIXTURE, lambda d: d["successes"].update(output_tokens={"total": 59697.0, "mean": 201.0}))

    assert read_benchmarks(path, DECLARED).profiles[0].output_tokens == 201


def test_latencies_of_tokens_are_absent_without_streaming(edited: Edited) -> None:
    path = edited(
        FIXTURE, lambda d: d["successes"]["latency"].update(time_to_first_token=None, time_per_output_token=None)
    )
    (point,) = read_benchmarks(path, DECLARED).profiles[0].points

    assert point.ttft == point.itl == Latency()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d["successes"].update(count=0), "no request succeeded"),
        (lambda d: d["failures"].update(count=99), "99 of 396 requests failed, more than 5%"),
        (lambda d: d["load_summary"].update(achieved_rate=3.0), "the client sent only 3 of 5 requests/s"),
        (lambda d: d["successes"]["throughput"].update(requests_per_sec=4.0), "overload: 4 of 4.98 requests/s"),
        (lambda d: d.update(load_summary={"count": 900}), "a summary of several stages"),
    ],
)
def test_a_run_that_cannot_be_used_is_refused_with_its_reason(edited: Edited, change: Change, problem: str) -> None:
    result = read_benchmarks(edited(FIXTURE, change), DECLARED)

    assert result.profiles == ()
    assert problem in result.refused[0].reason


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d["successes"].pop("prompt_tokens"), "has no mean of successes.prompt_tokens or prompt_len"),
        (lambda d: d["successes"].pop("output_len"), "has no mean of successes.output_len"),
        (lambda d: d["successes"].pop("throughput"), "requests_per_sec is missing"),
        (
            lambda d: d["successes"]["latency"]["request_latency"].update(p99=[]),
            r"request_latency\.p99 is not a number",
        ),
    ],
)
def test_a_bad_value_makes_the_file_unreadable(edited: Edited, change: Change, problem: str) -> None:
    with pytest.raises(UnreadableBenchmark, match=problem):
        read_benchmarks(edited(FIXTURE, change), DECLARED)


def test_the_sample_of_the_format_is_read() -> None:
    if not SAMPLE.is_file():
        pytest.skip("../shared/samples is not here")
    (profile,) = read_benchmarks(SAMPLE, DECLARED).profiles

    assert (profile.load, profile.input_tokens, profile.output_tokens) == (Load.POISSON, 1000, 200)
    assert profile.points[0].ttft.mean == 61
