"""The flattened CSV of NVIDIA's sizing course."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from firsttoken_sizing.benchmarks import Declared, ImportResult, read_benchmarks
from firsttoken_sizing.errors import InvalidInput, UnreadableBenchmark
from firsttoken_sizing.profile import ConfigurationKey, Latency, Load, Point, Profile

FIXTURE = Path(__file__).parents[2] / "fixtures" / "benchmarks" / "dli-llama3-8b-h100-fp8-2000-200.csv"
NIM_CSV = Path(__file__).resolve().parents[4] / "shared" / "samples" / "dli" / "nim.csv"

Cells = dict[str, str]


@pytest.fixture
def edited(tmp_path: Path) -> Callable[[Callable[[list[Cells]], object]], Path]:
    """Writes a copy of the fixture after a change to its rows."""

    def edit(change: Callable[[list[Cells]], object]) -> Path:
        with FIXTURE.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        columns = list(rows[0])
        change(rows)
        path = tmp_path / "edited.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
        return path

    return edit


def only_profile(result: ImportResult) -> Profile:
    (profile,) = result.profiles
    return profile


def at(profile: Profile, concurrency: float) -> Point:
    (point,) = [point for point in profile.points if point.concurrency == concurrency]
    return point


def test_the_configuration_is_read_from_the_file_in_canonical_names() -> None:
    profile = only_profile(read_benchmarks(FIXTURE))

    assert profile.key == ConfigurationKey("meta-llama/Meta-Llama-3-8B-Instruct", "H100-SXM-80GB", "FP8", 1, 1)
    assert (profile.input_tokens, profile.output_tokens, profile.load) == (2000, 200, Load.CLOSED_LOOP)
    assert profile.engine == "TensorRT-LLM"
    assert profile.name == "meta-llama-3-8b-instruct-h100-sxm-80gb-fp8-tp1-2000-200-tensorrt-llm"
    assert profile.source == f"DLI flattened CSV {FIXTURE.name}"


def test_nanoseconds_become_milliseconds() -> None:
    point = at(only_profile(read_benchmarks(FIXTURE)), 10)

    assert point.requests_per_second == 5.1954
    assert point.ttft == Latency(mean=pytest.approx(220.8), p95=pytest.approx(268.0))
    assert point.itl.mean == pytest.approx(8.56)
    assert point.end_to_end.mean == pytest.approx(220.8 + 199 * 8.56)


def test_points_are_sorted_and_the_one_measured_twice_is_averaged() -> None:
    profile = only_profile(read_benchmarks(FIXTURE))

    assert [point.concurrency for point in profile.points] == [1, 2, 5, 10, 25, 50, 100, 250]
    assert at(profile, 5).requests_per_second == pytest.approx(3.270)
    assert at(profile, 5).ttft.mean == pytest.approx(124.9)
    assert at(profile, 5).itl.mean == pytest.approx(7.06)


def test_an_average_has_no_floating_point_noise() -> None:
    profile = only_profile(read_benchmarks(FIXTURE))

    assert at(profile, 5).requests_per_second == 3.27
    for point in profile.points:
        for latency in (point.ttft, point.itl, point.end_to_end):
            known = [getattr(latency, name) for name in ("mean", "p50", "p90", "p95", "p99")]
            assert all(len(repr(value).replace(".", "").strip("0")) <= 6 for value in known if value is not None)


def test_a_percentile_that_one_of_two_measurements_lacks_is_left_out(edited: Callable[..., Path]) -> None:
    def one_p95(rows: list[Cells]) -> None:
        next(row for row in rows if row["input_config-concurrency"] == "5")["time_to_first_token-p95"] = "150e6"

    assert at(only_profile(read_benchmarks(edited(one_p95))), 5).ttft.p95 is None


def test_an_overload_window_is_refused_with_its_reason() -> None:
    (refused,) = read_benchmarks(FIXTURE).refused

    assert refused.row == f"{FIXTURE} line 11"
    assert "overload window" in refused.reason
    assert "0.72, below 0.9" in refused.reason
    assert "concurrency 200" in refused.reason


_TIMES = ("time_to_first_token", "inter_token_latency", "request_latency")


@pytest.mark.parametrize(
    ("per_nanosecond", "said"),
    [(1e-6, "1,000,000 times too short"), (1e-3, "1,000 times too short"), (1e6, "1,000,000 times too long")],
)
def test_a_row_in_another_unit_is_no_overload_but_mixed_units(
    edited: Callable[..., Path], per_nanosecond: float, said: str
) -> None:
    def in_another_unit(rows: list[Cells]) -> None:
        for column in rows[0]:
            if column.startswith(_TIMES) and not column.endswith("-unit") and rows[0][column]:
                rows[0][column] = repr(float(rows[0][column]) * per_nanosecond)

    reason = read_benchmarks(edited(in_another_unit)).refused[0].reason

    assert "latencies do not fit the throughput (mixed units?)" in reason
    assert said in reason
    assert "check that the times are in ns, which its columns *-unit say" in reason
    assert "overload" not in reason


def test_latencies_that_contradict_each_other_are_refused(edited: Callable[..., Path]) -> None:
    def itl_in_microseconds(rows: list[Cells]) -> None:
        rows[0]["inter_token_latency-avg"] = "5820"

    result = read_benchmarks(edited(itl_in_microseconds))

    assert "latencies disagree" in result.refused[0].reason
    assert only_profile(result).points[0].concurrency == 2


@pytest.mark.parametrize(
    ("mean", "p95", "reason"),
    [
        ("34.7", "38000000", "TTFT has a mean of"),
        ("34700000", "38", "TTFT has a"),
        ("34.7", "38", "shorter than one step"),
    ],
    ids=["mean alone", "P95 alone", "mean and P95"],
)
def test_a_row_in_other_units_than_its_column_is_refused(
    edited: Callable[..., Path], mean: str, p95: str, reason: str
) -> None:
    def in_milliseconds(rows: list[Cells]) -> None:
        rows[0] |= {"time_to_first_token-avg": mean, "time_to_first_token-p95": p95}

    result = read_benchmarks(edited(in_milliseconds))

    assert reason in result.refused[0].reason
    assert "mixed units?" in result.refused[0].reason
    assert only_profile(result).points[0].concurrency == 2


def test_configurations_and_lengths_become_profiles_of_their_own(edited: Callable[..., Path]) -> None:
    def spread(rows: list[Cells]) -> None:
        rows[0]["task_inputs-n_gpus"] = "2"
        rows[1]["task_inputs-precision"] = "fp16"
        rows[2]["task_inputs-GPU"] = "A100-SXM4-80GB"
        for row in rows[3:5]:
            row["input_config-synthetic_input_tokens_mean"] = row["num_input_token-avg"] = "7000"

    profiles = read_benchmarks(edited(spread)).profiles

    assert [(p.key.tensor_parallel, p.key.precision, p.key.gpu, p.input_tokens) for p in profiles] == [
        (2, "FP8", "H100-SXM-80GB", 2000),
        (1, "FP16", "H100-SXM-80GB", 2000),
        (1, "FP8", "A100-SXM-80GB", 2000),
        (1, "FP8", "H100-SXM-80GB", 7000),
        (1, "FP8", "H100-SXM-80GB", 2000),
    ]
    assert len({profile.name for profile in profiles}) == len(profiles)


def test_a_declaration_that_agrees_with_the_file_is_accepted() -> None:
    declared = Declared(gpu="h100-sxm", precision="fp8", tensor_parallel=1, engine="NIM", engine_version="1.0.0")
    profile = only_profile(read_benchmarks(FIXTURE, declared))

    assert profile.key == only_profile(read_benchmarks(FIXTURE)).key
    assert (profile.engine, profile.engine_version) == ("NIM", "1.0.0")


@pytest.mark.parametrize(
    ("declared", "flag", "problem"),
    [
        (Declared(gpu="H200"), "--gpu", "which says H100_80GB_HBM3"),
        (Declared(precision="fp16"), "--precision", "which says fp8"),
        (Declared(tensor_parallel=2), "--tensor-parallel", "which has 1 GPUs"),
        (Declared(pipeline_parallel=0), "--pipeline-parallel", "below 1"),
        (Declared(model="no-such-model"), "--model", "unknown model"),
        (Declared(gpu="no-such-gpu"), "--gpu", "unknown GPU"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(declared: Declared, flag: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        read_benchmarks(FIXTURE, declared)

    assert caught.value.field == flag


def test_stages_of_a_pipeline_divide_the_gpus_of_a_replica(edited: Callable[..., Path]) -> None:
    def eight_gpus(rows: list[Cells]) -> None:
        for row in rows:
            row["task_inputs-n_gpus"] = "8"

    profile = only_profile(read_benchmarks(edited(eight_gpus), Declared(pipeline_parallel=2)))

    assert (profile.key.tensor_parallel, profile.key.pipeline_parallel) == (4, 2)
    assert "tp4-pp2" in profile.name


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        (
            "time_to_first_token-avg",
            "nan",
            "line 2: time_to_first_token-avg is not a finite number above 0: nan; correct it, or remove that row",
        ),
        ("request_throughput-avg", "Infinity", "line 2: request_throughput-avg is not a finite number above 0: Inf"),
        ("request_latency-avg", "-5", "line 2: request_latency-avg is not a finite number above 0"),
        ("request_latency-avg", "", "line 2: request_latency-avg is missing"),
        ("input_config-concurrency", "many", "line 2: input_config-concurrency is not a number: 'many'"),
        ("num_output_token-avg", "N/A", "line 2: num_output_token-avg is missing"),
        ("task_inputs-n_gpus", "1.5", "line 2: task_inputs-n_gpus is not a whole number"),
        ("time_to_first_token-unit", "ms", r"mixes units of time \(ms, ns\)"),
    ],
)
def test_a_bad_cell_makes_the_file_unreadable(
    edited: Callable[..., Path], column: str, value: str, problem: str
) -> None:
    with pytest.raises(UnreadableBenchmark, match=problem) as caught:
        read_benchmarks(edited(lambda rows: rows[0].update({column: value})))

    assert str(caught.value).startswith(caught.value.file)
    assert caught.value.file.endswith("edited.csv")


def test_one_unknown_unit_of_time_makes_the_file_unreadable(edited: Callable[..., Path]) -> None:
    def in_fortnights(rows: list[Cells]) -> None:
        for row in rows:
            row |= {column: "fortnight" for column in row if row[column] == "ns"}

    with pytest.raises(UnreadableBenchmark, match="times in 'fortnight', not in one of ns, us, ms"):
        read_benchmarks(edited(in_fortnights))


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "short.csv"
    path.write_text("task_inputs-model,task_inputs-GPU\nllama3-8b,H100\n")

    with pytest.raises(UnreadableBenchmark, match=r"short\.csv: has no column task_inputs-n_gpus"):
        read_benchmarks(path)


def test_a_truncated_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "truncated.csv"
    path.write_text(FIXTURE.read_text()[:-40])

    with pytest.raises(UnreadableBenchmark, match="line 11 does not have 22 columns"):
        read_benchmarks(path)


def test_the_original_file_gives_the_points_of_the_course() -> None:
    if not NIM_CSV.is_file():
        pytest.skip("../shared/samples/dli/nim.csv is not here")
    result = read_benchmarks(NIM_CSV)
    (profile,) = [
        profile
        for profile in result.profiles
        if profile.key == ConfigurationKey("meta-llama/Meta-Llama-3-8B-Instruct", "H100-SXM-80GB", "FP8")
        and (profile.input_tokens, profile.output_tokens) == (2000, 200)
    ]

    assert len(result.profiles) == 53
    assert len(result.refused) == 26
    assert all("overload window" in refused.reason for refused in result.refused)
    assert at(profile, 10).requests_per_second == pytest.approx(5.1954, abs=5e-5)
    assert at(profile, 10).ttft.mean == pytest.approx(220.8, abs=0.05)
    assert at(profile, 10).ttft.p95 == pytest.approx(268.2, abs=0.05)
    assert at(profile, 25).requests_per_second == pytest.approx(8.8434, abs=5e-5)
    assert at(profile, 5).requests_per_second == pytest.approx(3.270, abs=5e-4)
