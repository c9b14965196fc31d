"""`firsttoken import`: files of benchmark tools in, BenchmarkProfile YAML out, and back."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.profiles import profile
from firsttoken_operator.cli import main
from firsttoken_sizing.benchmarks import Declared, read_benchmarks
from firsttoken_sizing.declared import DeclaredSettings

FIXTURES = Path(__file__).parents[2] / "fixtures" / "benchmarks"
DLI = FIXTURES / "dli-llama3-8b-h100-fp8-2000-200.csv"
NESTED = FIXTURES / "genai-perf-nested-concurrency4.json"
FLAT = FIXTURES / "genai-perf-flat-concurrency8.json"
NIM_CSV = Path(__file__).resolve().parents[4] / "shared" / "samples" / "dli" / "nim.csv"
FLAGS = ["--model=llama-3.1-8b", "--gpu=L40S", "--precision=bf16", "--tensor-parallel=1"]


def loaded(text: str) -> list[BenchmarkProfile]:
    return [BenchmarkProfile.model_validate(document) for document in yaml.safe_load_all(text)]


def test_the_yaml_goes_to_stdout_and_what_was_left_out_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(DLI)]) == 0

    shown = capsys.readouterr()
    (benchmark,) = loaded(shown.out)
    assert benchmark.spec.model == "meta-llama/Meta-Llama-3-8B-Instruct"
    assert benchmark.spec.gpu == "H100-SXM-80GB"
    assert len(benchmark.spec.points) == 8
    assert f"left out {DLI} line 11: overload window" in shown.err
    assert "imported 8 points as 1 BenchmarkProfile(s), left out 1 run(s)" in shown.err


def test_numbers_are_written_as_a_person_would(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(DLI)]) == 0

    numbers = re.findall(r": ([0-9][0-9.]*)$", capsys.readouterr().out, re.MULTILINE)
    assert {"3.27", "5.1954", "268", "1924.24"} <= set(numbers)
    assert all(len(number.replace(".", "").strip("0")) <= 6 for number in numbers)


def test_import_and_load_give_the_same_profile(tmp_path: Path) -> None:
    output = tmp_path / "profiles.yaml"

    assert main(["import", str(DLI), "--out", str(output)]) == 0

    assert [profile(benchmark) for benchmark in loaded(output.read_text())] == list(read_benchmarks(DLI).profiles)


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.json")), ids=lambda path: path.stem)
def test_import_and_load_give_the_same_profiles_for_every_format(tmp_path: Path, path: Path) -> None:
    output = tmp_path / "profiles.yaml"
    flags = ["--model=llama-3.1-8b", "--gpu=H100-SXM-80GB", "--precision=fp8", "--tensor-parallel=2"]

    assert main(["import", str(path), *flags, "--out", str(output)]) == 0

    expected = read_benchmarks(path, Declared("llama-3.1-8b", "H100-SXM-80GB", "FP8", 2)).profiles
    assert expected
    assert [profile(benchmark) for benchmark in loaded(output.read_text())] == list(expected)


def test_what_was_left_out_of_a_run_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads((FIXTURES / "trtllm-bench-concurrency32.json").read_text())
    report["world_info"]["issue_rate"] = float("inf")
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))

    assert main(["import", str(path)]) == 0

    assert f"note on {path}: sent all requests at once: throughput" in capsys.readouterr().err


def test_files_of_one_sweep_become_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(NESTED), str(FLAT), *FLAGS, "--engine=vLLM", "--engine-version=0.33.0"]) == 0

    (benchmark,) = loaded(capsys.readouterr().out)
    assert [point.concurrency for point in benchmark.spec.points] == [4, 8]
    assert (benchmark.spec.engine, benchmark.spec.engine_version) == ("vLLM", "0.33.0")
    declared = Declared("llama-3.1-8b", "L40S", "BF16", 1, engine="vLLM", engine_version="0.33.0")
    assert profile(benchmark) == read_benchmarks([NESTED, FLAT], declared).profiles[0]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([str(NESTED)], "add --model NAME"),
        ([str(NESTED), *FLAGS[:1], *FLAGS[2:]], "add --gpu, for example --gpu H100-SXM-80GB"),
        ([str(NESTED), *FLAGS[:3]], "add --tensor-parallel"),
        ([str(NESTED), *FLAGS, "--gpu=NVIDIA-L40S-SHARED"], "--gpu: 'NVIDIA-L40S-SHARED' is a time-sliced GPU"),
        ([str(DLI), "--gpu=L40S"], "--gpu: L40S contradicts"),
        (["nowhere.csv"], "nowhere.csv: cannot be read: No such file or directory"),
        ([str(DLI), "--out", "no/such/folder.yaml"], "--out: no/such/folder.yaml: No such file"),
        ([], "the following arguments are required: FILE"),
    ],
)
def test_what_cannot_be_imported_is_named(
    capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    assert main(["import", *arguments]) == 2

    assert problem in capsys.readouterr().err.splitlines()[-1]


def test_a_file_without_a_sound_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = DLI.read_text().splitlines()
    path = tmp_path / "overload.csv"
    path.write_text(f"{lines[0]}\n{lines[-1]}\n")

    assert main(["import", str(path)]) == 2

    shown = capsys.readouterr()
    assert shown.out == ""
    assert "no run could be used" in shown.err


def test_a_profile_that_the_schema_does_not_hold_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header, first, *_ = DLI.read_text().splitlines()
    path = tmp_path / "long.csv"
    many = [first.replace(",1,2000,0,200", f",{1 + step / 10000},2000,0,200") for step in range(201)]
    path.write_text("\n".join([header, *many, ""]))

    assert main(["import", str(path)]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert "spec.points" in line
    assert "meta-llama-3-8b-instruct-h100-sxm-80gb-fp8-tp1-2000-200" in line


@pytest.mark.slow
def test_the_original_file_of_the_course_makes_the_round_trip(tmp_path: Path) -> None:
    if not NIM_CSV.is_file():
        pytest.skip("../shared/samples/dli/nim.csv is not here")
    output = tmp_path / "profiles.yaml"

    assert main(["import", str(NIM_CSV), "--out", str(output)]) == 0

    expected = read_benchmarks(NIM_CSV).profiles
    assert [profile(benchmark) for benchmark in loaded(output.read_text())] == list(expected)


def test_the_settings_of_the_engine_are_declared_and_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--max-batch-size=64", "--max-batched-tokens=2048", "--kv-cache-type=FP8", "--gpu-memory-percent=80"]

    assert main(["import", str(NESTED), *FLAGS, *settings]) == 0

    (benchmark,) = loaded(capsys.readouterr().out)
    assert benchmark.metadata.name.endswith("-batch64-step2048-kv8-memory80")
    assert profile(benchmark).settings == DeclaredSettings(64, 2048, 8, 0.8)
    declared = Declared("llama-3.1-8b", "L40S", "BF16", 1, None, None, None, 64, 2048, 8, 80)
    assert read_benchmarks(NESTED, declared).profiles[0].settings == DeclaredSettings(64, 2048, 8, 0.8)


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--max-batch-size=0", "--max-batch-size: 0 is below 1"),
        ("--max-batched-tokens=-1", "--max-batched-tokens: -1 is below 1"),
        ("--kv-cache-type=FP4", "--kv-cache-type: 'FP4' is not known; use FP8"),
        ("--gpu-memory-percent=100", "--gpu-memory-percent: 100 is outside 1 to 99"),
    ],
)
def test_settings_that_no_engine_has_are_refused(flag: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(NESTED), *FLAGS, flag]) == 2

    assert said in capsys.readouterr().err
