"""`--benchmarks`: whatever a benchmark tool wrote, without an import before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from firsttoken_operator.cli import main

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "tests/fixtures/benchmarks"
COURSE = FIXTURES / "dli-llama3-8b-h100-fp8-2000-200.csv"
NIM_CSV = ROOT.parent / "shared" / "samples" / "dli" / "nim.csv"
SAID = "model=meta-llama/Meta-Llama-3-8B-Instruct,gpu=H100-SXM-80GB,precision=FP8,tensor-parallel=1"
RESULTS = sorted(f.name for f in FIXTURES.iterdir() if f.suffix in (".json", ".csv"))


@pytest.fixture
def question(tmp_path: Path) -> Path:
    """The call center without its measurements."""
    every = yaml.safe_load_all((ROOT / "examples/call-center.yaml").read_text(encoding="utf-8"))
    file = tmp_path / "question.yaml"
    file.write_text(yaml.safe_dump_all([d for d in every if d["kind"] != "BenchmarkProfile"]), encoding="utf-8")
    return file


def asked(question: Path, *benchmarks: Path | str) -> int:
    return main(["size", "-f", str(question), "-o", "json", "--benchmarks", *map(str, benchmarks)])


def test_the_csv_of_the_course_answers_its_question(capsys: pytest.CaptureFixture[str], question: Path) -> None:
    assert asked(question, COURSE, "--percentile", "Mean") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["replicas"], answer["servers"], answer["basis"]) == (39, 5, "Measured")


def test_the_original_file_of_the_course_is_read_as_it_is(capsys: pytest.CaptureFixture[str], question: Path) -> None:
    if not NIM_CSV.exists():
        pytest.skip("../shared/samples/dli/nim.csv is not here")
    assert asked(question, NIM_CSV, "--percentile", "Mean") == 0
    shown = capsys.readouterr()
    answer = json.loads(shown.out)
    assert (answer["replicas"], answer["basis"]) == (39, "Measured")
    assert "left out" in shown.err
    assert "overload window" in shown.err


@pytest.mark.parametrize("name", RESULTS)
def test_every_format_that_can_be_imported_is_read(
    capsys: pytest.CaptureFixture[str], question: Path, name: str
) -> None:
    said = SAID.replace("parallel=1", "parallel=2") if name.startswith(("trtllm", "vllm")) else SAID
    assert asked(question, FIXTURES / name, "--measured", said) in (0, 3)
    assert json.loads(capsys.readouterr().out)["model"] == "meta-llama/Meta-Llama-3-8B-Instruct"


def test_several_files_and_a_folder_are_read_and_what_is_no_benchmark_is_named(
    capsys: pytest.CaptureFixture[str], question: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    shutil.copy(COURSE, folder)
    (folder / "inputs.json").write_text("{}", encoding="utf-8")
    (folder / "notes.txt").write_text("not read", encoding="utf-8")

    assert asked(question, folder, FIXTURES / "guidellm-concurrent-poisson-constant.json", "--measured", SAID) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["basis"] == "Measured"
    assert f"left out {folder / 'inputs.json'}: " in shown.err
    assert "notes.txt" not in shown.err


@pytest.mark.parametrize(
    ("benchmarks", "line"),
    [
        ((FIXTURES / "aiperf-concurrency16.json",), "--measured: "),
        ((FIXTURES / "README.md",), "README.md: "),
        ((COURSE, "--measured", "gpu=A100-SXM-80GB"), "--measured: A100-SXM-80GB contradicts"),
        ((COURSE, "--measured", "GPUs=8"), "--measured: 'GPUs=8' is not one of model, gpu"),
        ((COURSE, "--measured", "tensor-parallel=two"), "--measured: 'tensor-parallel=two' is no whole number"),
        ((COURSE, "--measured", "tensor-parallel=²"), "--measured: 'tensor-parallel=²' is no whole number"),
        ((COURSE, "--measured", "tensor-parallel=0"), "--measured: 'tensor-parallel=0' is no whole number"),
    ],
    ids=["a GPU that no file says", "a file that is none", "a contradiction", "another word", "no number", "²", "0"],
)
def test_what_cannot_be_used_is_one_line(
    capsys: pytest.CaptureFixture[str], question: Path, benchmarks: tuple[Path | str, ...], line: str
) -> None:
    assert asked(question, *benchmarks) == 2
    (shown,) = capsys.readouterr().err.splitlines()
    assert line in shown


def test_words_about_no_file_are_refused(capsys: pytest.CaptureFixture[str], question: Path) -> None:
    assert main(["size", "-f", str(question), "--measured", "gpu=L40S"]) == 2
    assert "--measured: has no meaning without --benchmarks" in capsys.readouterr().err
