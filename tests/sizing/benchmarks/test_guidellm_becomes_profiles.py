"""guidellm's JSON: one run for each strategy that a profile can hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firsttoken_sizing.benchmarks import Declared, read_benchmarks
from firsttoken_sizing.errors import UnreadableBenchmark
from firsttoken_sizing.profile import Latency, Load

FIXTURE = Path(__file__).parents[2] / "fixtures" / "benchmarks" / "guidellm-concurrent-poisson-constant.json"
SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "samples" / "guidellm-0.8.1"
DECLARED = Declared(model="llama-3.1-8b", gpu="L40S", precision="bf16", tensor_parallel=1)

Change = Callable[[dict[str, Any]], object]
Edited = Callable[[Path, Change], Path]


def strategy(data: dict[str, Any], index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = data["benchmarks"][index]["config"]["strategy"]
    return found


def metrics(data: dict[str, Any], index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = data["benchmarks"][index]["metrics"]
    return found


def alone(change: Change) -> Change:
    """A change to a file that holds the concurrent benchmark only."""

    def only_first(data: dict[str, Any]) -> None:
        del data["benchmarks"][1:]
        change(data)

    return only_first


def test_a_closed_loop_and_poisson_arrivals_become_profiles_of_their_own() -> None:
    result = read_benchmarks(FIXTURE, DECLARED)
    closed, poisson = result.profiles

    assert (closed.load, closed.points[0].concurrency) == (Load.CLOSED_LOOP, 8)
    assert (poisson.load, poisson.points[0].offered_requests_per_second) == (Load.POISSON, 4)
    assert poisson.points[0].concurrency is None
    assert poisson.points[0].requests_per_second == 3.95
    assert closed.name != poisson.name


def test_a_constant_rate_is_refused_with_its_reason() -> None:
    (refused,) = read_benchmarks(FIXTURE, DECLARED).refused

    assert refused.row == f"{FIXTURE} benchmarks[2]"
    assert refused.reason.startswith("sent at a constant rate, which is neither a closed loop nor Poisson")


def test_seconds_and_milliseconds_are_told_apart() -> None:
    point = read_benchmarks(FIXTURE, DECLARED).profiles[0].points[0]

    assert point.ttft == Latency(mean=80, p50=76, p90=104, p95=116, p99=136)
    assert point.itl.mean == 12  # not time_per_output_token_ms, which has the TTFT in it
    assert point.end_to_end.mean == 80 + 199 * 12


def test_lengths_are_the_measured_ones() -> None:
    profile = read_benchmarks(FIXTURE, DECLARED).profiles[0]

    assert (profile.input_tokens, profile.output_tokens) == (1007, 200)  # 1000 requested


def test_only_successful_requests_count(edited: Edited) -> None:
    def with_errors(data: dict[str, Any]) -> None:
        metrics(data)["time_to_first_token_ms"] |= {"total": {"mean": 1.0}, "errored": {"mean": 1.0}}

    point = read_benchmarks(edited(FIXTURE, alone(with_errors)), DECLARED).profiles[0].points[0]

    assert point.ttft.mean == 80


@pytest.mark.parametrize(
    ("change", "concurrency"),
    [
        (lambda d: strategy(d).update(type_="throughput", max_concurrency=8), 8),
        (lambda d: strategy(d).update(streams=7), 7),
    ],
)
def test_a_cap_on_what_is_in_flight_makes_a_closed_loop(edited: Edited, change: Change, concurrency: float) -> None:
    (profile,) = read_benchmarks(edited(FIXTURE, alone(change)), DECLARED).profiles

    assert (profile.load, profile.points[0].concurrency) == (Load.CLOSED_LOOP, concurrency)


def test_one_request_after_another_is_concurrency_1(edited: Edited) -> None:
    def synchronous(data: dict[str, Any]) -> None:
        data["benchmarks"][0]["config"]["strategy"] = {"type_": "synchronous"}
        metrics(data)["requests_per_second"]["successful"]["mean"] = 0.4

    (profile,) = read_benchmarks(edited(FIXTURE, alone(synchronous)), DECLARED).profiles

    assert profile.points[0].concurrency == 1


def test_a_run_that_sends_everything_at_once_keeps_its_throughput_only(edited: Edited) -> None:
    def unlimited(data: dict[str, Any]) -> None:
        strategy(data).update(type_="throughput", max_concurrency=None)

    result = read_benchmarks(edited(FIXTURE, alone(unlimited)), DECLARED)
    (point,) = result.profiles[0].points

    assert (point.requests_per_second, point.itl.mean) == (3.1, 12)
    assert point.ttft == point.end_to_end == Latency()
    assert point.concurrency == pytest.approx(3.1 * 0.012 * 199, rel=1e-5)
    assert "sent all requests at once" in result.remarks[0].text


def test_a_latency_that_no_request_had_is_absent(edited: Edited) -> None:
    def without_streaming(data: dict[str, Any]) -> None:
        for name in ("time_to_first_token_ms", "inter_token_latency_ms"):
            metrics(data)[name]["successful"] = {"mean": 0.0, "count": 0, "percentiles": {"p95": 0.0}}

    point = read_benchmarks(edited(FIXTURE, alone(without_streaming)), DECLARED).profiles[0].points[0]

    assert point.ttft == point.itl == Latency()
    assert point.end_to_end.mean is not None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: metrics(d)["request_totals"].update(successful=0, errored=160), "no request succeeded"),
        (lambda d: metrics(d)["request_totals"].update(errored=40), "40 of 200 requests failed"),
        (lambda d: metrics(d)["requests_per_second"]["successful"].update(mean=2.0), "overload window"),
        (lambda d: strategy(d).update(type_="incremental"), "by the strategy 'incremental'"),
        (lambda d: strategy(d).update(type_="poisson", rate=3.2, max_concurrency=12), "at most 12 in flight"),
        (lambda d: strategy(d).update(type_="poisson", rate=5.0, max_concurrency=None), "3.1 of 5 requests/s were"),
    ],
)
def test_a_run_that_cannot_be_used_is_refused_with_its_reason(edited: Edited, change: Change, problem: str) -> None:
    result = read_benchmarks(edited(FIXTURE, alone(change)), DECLARED)

    assert result.profiles == ()
    assert problem in result.refused[0].reason


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d["metadata"].update(version=1), "layout version 1, not 2"),
        (lambda d: d.update(benchmarks={}), "has no list of benchmarks"),
        (lambda d: strategy(d).pop("streams"), r"benchmarks\[0\]: strategy\.streams is missing"),
        (lambda d: metrics(d).pop("output_token_count"), r"output_token_count\.successful\.mean is missing"),
        (lambda d: metrics(d)["request_totals"].pop("errored"), r"request_totals\.errored is missing"),
        (
            lambda d: metrics(d, 1)["request_latency"]["successful"]["percentiles"].update(p95="slow"),
            r"benchmarks\[1\]: request_latency\.p95 is not a number",
        ),
    ],
)
def test_a_bad_value_makes_the_file_unreadable(edited: Edited, change: Change, problem: str) -> None:
    with pytest.raises(UnreadableBenchmark, match=problem):
        read_benchmarks(edited(FIXTURE, change), DECLARED)


def test_files_that_the_real_tool_wrote_are_read() -> None:
    if not SAMPLES.is_dir():
        pytest.skip("../shared/samples is not here")
    (profile,) = read_benchmarks(SAMPLES / "benchmarks.trimmed.json", DECLARED).profiles

    assert (profile.input_tokens, profile.output_tokens) == (67, 16)
    assert [point.concurrency for point in profile.points] == [1, 4]
    assert profile.points[0].end_to_end.mean == pytest.approx(122.73, abs=0.01)
    with pytest.raises(UnreadableBenchmark, match=r"guidellm's CSV; import the benchmarks\.json"):
        read_benchmarks(SAMPLES / "benchmarks.csv")
