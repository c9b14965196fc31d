"""AIPerf's JSON: one run, and a sweep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firsttoken_sizing.benchmarks import Declared, read_benchmarks
from firsttoken_sizing.errors import InvalidInput, UnreadableBenchmark
from firsttoken_sizing.profile import ConfigurationKey, Load

FIXTURES = Path(__file__).parents[2] / "fixtures" / "benchmarks"
RUN = FIXTURES / "aiperf-concurrency16.json"
SWEEP = FIXTURES / "aiperf-sweep-concurrency1-8.json"
SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "samples" / "aiperf-0.13.0"
DECLARED = Declared(model="llama-3.1-8b", gpu="H100-SXM-80GB", precision="fp8", tensor_parallel=1)

Change = Callable[[dict[str, Any]], object]
Edited = Callable[[Path, Change], Path]


def profiling(data: dict[str, Any]) -> dict[str, Any]:
    (phase,) = [phase for phase in data["input_config"]["phases"] if phase["kind"] == "profiling"]
    found: dict[str, Any] = phase
    return found


def at_a_poisson_rate(data: dict[str, Any]) -> None:
    phase = profiling(data)
    del phase["concurrency"]
    phase |= {"type": "poisson", "rate": 5.5}


def reason(path: Path) -> str:
    result = read_benchmarks(path, DECLARED)
    assert result.profiles == ()
    (refused,) = result.refused
    return refused.reason


def test_the_profiling_phase_is_read_and_the_warm_up_is_not() -> None:
    (profile,) = read_benchmarks(RUN, DECLARED).profiles
    (point,) = profile.points

    assert profile.key == ConfigurationKey("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB", "FP8", 1, 1)
    assert (profile.input_tokens, profile.output_tokens) == (1003, 200)  # 1003.2 measured, 1000 requested
    assert profile.load is Load.CLOSED_LOOP
    assert point.concurrency == 16
    assert point.ttft.mean == 120
    assert point.ttft.p99 == pytest.approx(204)
    assert point.itl.mean == 14
    assert point.end_to_end.mean == 120 + 199 * 14


def test_units_are_those_of_the_file(edited: Edited) -> None:
    def in_seconds(data: dict[str, Any]) -> None:
        for metric in ("time_to_first_token", "inter_token_latency", "request_latency"):
            data[metric] = {k: "sec" if k == "unit" else v / 1000 for k, v in data[metric].items()}

    (profile,) = read_benchmarks(edited(RUN, in_seconds), DECLARED).profiles

    assert profile.points[0].ttft.mean == pytest.approx(120)


def test_prompts_that_were_not_counted_are_as_long_as_was_asked_for(edited: Edited) -> None:
    result = read_benchmarks(edited(RUN, lambda data: data.pop("input_sequence_length")), DECLARED)

    assert result.profiles[0].input_tokens == 1000
    assert "(--isl)" in result.remarks[0].text


def test_prompts_that_were_neither_counted_nor_asked_for_are_refused(edited: Edited) -> None:
    def unknown(data: dict[str, Any]) -> None:
        del data["input_sequence_length"], data["input_config"]["datasets"]

    with pytest.raises(UnreadableBenchmark, match="input_sequence_length"):
        read_benchmarks(edited(RUN, unknown), DECLARED)


def test_every_combination_of_a_sweep_is_a_point() -> None:
    (profile,) = read_benchmarks(SWEEP, DECLARED).profiles

    assert [point.concurrency for point in profile.points] == [1, 8]
    assert [point.ttft.mean for point in profile.points] == [40, 80]


def test_a_run_and_a_sweep_that_measured_the_same_lengths_become_one_profile() -> None:
    (profile,) = read_benchmarks([RUN, SWEEP], DECLARED).profiles

    assert [point.concurrency for point in profile.points] == [1, 8, 16]


def test_a_sweep_names_no_model() -> None:
    with pytest.raises(InvalidInput, match="add --model NAME"):
        read_benchmarks(SWEEP, Declared(gpu="H100-SXM-80GB", precision="fp8", tensor_parallel=1))


def test_poisson_arrivals_become_an_open_loop(edited: Edited) -> None:
    (profile,) = read_benchmarks(edited(RUN, at_a_poisson_rate), DECLARED).profiles

    assert profile.load is Load.POISSON
    assert profile.points[0].offered_requests_per_second == 5.5
    assert profile.points[0].concurrency is None


@pytest.mark.parametrize(("most_in_flight", "refused"), [(30, False), (32, True), (None, True)])
def test_poisson_arrivals_are_refused_where_a_cap_held_them_back(
    edited: Edited, most_in_flight: int | None, refused: bool
) -> None:
    def capped(data: dict[str, Any]) -> None:
        at_a_poisson_rate(data)
        profiling(data)["concurrency"] = 32
        data["effective_concurrency"] = {"max": most_in_flight}

    result = read_benchmarks(edited(RUN, capped), DECLARED)

    assert bool(result.refused) == refused
    assert all("at most 32 in flight, which was reached" in left_out.reason for left_out in result.refused)


@pytest.mark.parametrize(
    ("loadgen", "load"),
    [
        ({"concurrency": 16}, Load.CLOSED_LOOP),
        ({"request_rate": 5.5, "request_rate_mode": "poisson"}, Load.POISSON),
        ({"request_rate": 5.5}, Load.POISSON),
    ],
)
def test_settings_of_2025_are_read(edited: Edited, loadgen: dict[str, Any], load: Load) -> None:
    def as_in_2025(data: dict[str, Any]) -> None:
        data["input_config"] = {
            "endpoint": {"model_names": ["meta-llama/Llama-3.1-8B-Instruct"]},
            "input": {"prompt": {"input_tokens": {"mean": 1000}, "output_tokens": {"mean": 200}}},
            "loadgen": loadgen,
        }

    declared = Declared(gpu="H100-SXM-80GB", precision="fp8", tensor_parallel=1)
    (profile,) = read_benchmarks(edited(RUN, as_in_2025), declared).profiles

    assert profile.key.model == "meta-llama/Llama-3.1-8B-Instruct"
    assert profile.load is load


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d.update(was_cancelled=True), "was cancelled"),
        (lambda d: d.update(is_complete=False), "is incomplete"),
        (lambda d: profiling(d).update(cancellation={"rate": 10}), "cancelled requests on purpose"),
        (lambda d: profiling(d).update(type="constant", rate=5.0), "type 'constant', which is neither"),
        (lambda d: profiling(d).update(type="gamma", rate=5.0), "type 'gamma', which is neither"),
        (lambda d: profiling(d).update(type="poisson", rate=5.0, rate_ramp=30), "by a changing rate"),
        (lambda d: d["input_config"]["phases"].append(profiling(d)), "several profiling phases"),
        (lambda d: d.update(error_summary=[{"count": 20}, {"count": 5}]), "25 of 345 requests failed"),
        (lambda d: d.update(error_summary=[{"count": 320}]) or d.pop("request_latency"), "no request succeeded"),
        (lambda d: d["request_throughput"].update(avg=4.0), "overload window"),
    ],
)
def test_a_run_that_cannot_be_used_is_refused_with_its_reason(edited: Edited, change: Change, problem: str) -> None:
    assert problem in reason(edited(RUN, change))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d["input_config"]["phases"].pop(), "has no profiling phase"),
        (lambda d: profiling(d).pop("concurrency"), "concurrency is missing"),
        (lambda d: d["time_to_first_token"].update(unit="tokens"), "time_to_first_token is in 'tokens'"),
        (lambda d: d["inter_token_latency"].update(p95="fast"), r"inter_token_latency\.p95 is not a number"),
        (lambda d: d.pop("request_latency"), "has no request_latency"),
        (lambda d: d.update(error_summary=[{"count": -1}]), "error_summary: count is below 0"),
        (lambda d: d["input_config"]["models"]["items"].append({"name": "other"}), "mixes the models"),
    ],
)
def test_a_bad_value_makes_the_file_unreadable(edited: Edited, change: Change, problem: str) -> None:
    with pytest.raises(UnreadableBenchmark, match=problem):
        read_benchmarks(edited(RUN, change), DECLARED)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d["per_combination_metrics"][0].update(parameters={"request_rate": 4}), "sweeps request_rate"),
        (lambda d: d["per_combination_metrics"][0].update(parameters={}), "sweeps nothing"),
        (lambda d: d["failed_runs"].append({"label": "run_0003"}), "AIPerf reports that the run failed"),
        (lambda d: d["per_combination_metrics"][0]["metrics"]["completed_request_count"].update(avg=40), "20 of 40"),
        (lambda d: d["per_combination_metrics"][1]["metrics"]["request_throughput"].update(avg=1), "overload window"),
    ],
)
def test_a_combination_that_cannot_be_used_is_refused_with_its_reason(
    edited: Edited, change: Change, problem: str
) -> None:
    result = read_benchmarks(edited(SWEEP, change), DECLARED)

    assert len(result.profiles) == 1
    assert problem in result.refused[0].reason


def test_a_bad_value_of_a_sweep_names_its_combination(edited: Edited) -> None:
    def without_unit(data: dict[str, Any]) -> None:
        data["per_combination_metrics"][1]["metrics"]["inter_token_latency"].pop("unit")

    with pytest.raises(UnreadableBenchmark, match=r"per_combination_metrics\[1\]: inter_token_latency is in None"):
        read_benchmarks(edited(SWEEP, without_unit), DECLARED)


def test_the_csv_points_to_the_json(tmp_path: Path) -> None:
    path = tmp_path / "profile_export_aiperf.csv"
    path.write_text("Metric,avg,min,max,sum,p99\nTime to First Token (ms),40,20,80,800,79\n\nMetric,Value\n")

    with pytest.raises(UnreadableBenchmark, match=r"no concurrency .* import profile_export_aiperf\.json"):
        read_benchmarks(path)


def test_files_that_the_real_tool_wrote_are_read() -> None:
    if not SAMPLES.is_dir():
        pytest.skip("../shared/samples is not here")
    (profile,) = read_benchmarks(SAMPLES / "profile_export_aiperf.json", DECLARED).profiles
    swept = read_benchmarks(SAMPLES / "profile_export_aiperf_sweep.json", DECLARED)

    assert (profile.input_tokens, profile.output_tokens) == (192, 48)  # 64 and 16 were requested
    assert profile.points[0].concurrency == 4
    assert profile.points[0].ttft.p95 == pytest.approx(67.084, abs=1e-3)
    assert swept.profiles[0].points[0].concurrency == 1
    assert ["overload window" in refused.reason for refused in swept.refused] == [True, True]
    with pytest.raises(UnreadableBenchmark, match=r"import profile_export_aiperf_sweep\.json"):
        read_benchmarks(SAMPLES / "profile_export_aiperf_sweep.csv")
