from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_operator.cli import main

ROOT = Path(__file__).resolve().parents[3]
CALL_CENTER = ROOT / "examples/call-center.yaml"
LLAMA_8B, LLAMA_70B = "meta-llama/Meta-Llama-3-8B-Instruct", "meta-llama/Meta-Llama-3-70B-Instruct"


def curves(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["curve", "-f", str(CALL_CENTER), "-o", "json", *arguments]) == 0
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, list)
    return document


def changed(tmp_path: Path, **spec: object) -> Path:
    """The call center with other parts of its spec; None removes one."""
    documents = list(yaml.safe_load_all(CALL_CENTER.read_text(encoding="utf-8")))
    for document in documents:
        if document["kind"] == "InferenceDeployment":
            document["spec"] = {k: v for k, v in {**document["spec"], **spec}.items() if v is not None}
    file = tmp_path / "changed.yaml"
    file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return file


def test_every_tensor_parallelism_is_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = curves(capsys)

    assert [c["tensorParallel"] for c in found] == [1, 2, 4, 8]
    assert {(c["model"], c["gpu"], c["precision"]) for c in found} == {(LLAMA_8B, "H100-SXM-80GB", "FP8")}
    assert {c["arrivals"] for c in found} == {"ClosedLoop"}
    assert found[0]["basis"] == "Measured"
    assert found[0]["chosen"]["requestsPerSecondPerReplica"] == 5.1954
    assert [p["concurrency"] for p in found[0]["points"]] == [1, 2, 5, 10, 25, 50, 100, 250]


def test_the_points_are_those_that_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for curve in curves(capsys, "--concurrency", "25, 1,10"):
        assert [p["concurrency"] for p in curve["points"]] == [1, 10, 25]
    for curve in curves(capsys, "--rates", "0.5,2"):
        assert curve["arrivals"] == "Poisson"
        assert [p["requestsPerSecond"] for p in curve["points"]] == [0.5, 2]


def test_both_kinds_of_points_leave_the_reading_to_the_resource(capsys: pytest.CaptureFixture[str]) -> None:
    assert {c["arrivals"] for c in curves(capsys, "--rates", "1", "--concurrency", "1")} == {"ClosedLoop"}
    both = ("--rates", "1", "--concurrency", "1", "--arrivals", "Poisson")
    assert {c["arrivals"] for c in curves(capsys, *both)} == {"Poisson"}


def test_several_models_stand_side_by_side_under_one_sla(capsys: pytest.CaptureFixture[str]) -> None:
    models = ("--model", "meta/llama3-8b-instruct", "--model", LLAMA_70B)

    assert main(["curve", "-f", str(CALL_CENTER), *models]) == 0
    table = capsys.readouterr().out.split("one replica")[0]
    assert "sized under its SLA (ClosedLoop)" in table
    for word in ("Llama-3-8B", "Llama-3-70B", "Measured", "0.0943", "USD"):
        assert word in table
    found = curves(capsys, *models, "--concurrency", "1")
    assert [c["model"] for c in found if c["chosen"]] == [LLAMA_8B, LLAMA_70B]
    # The declared precision is that of the declared model.
    assert {c["precision"] for c in found if c["model"] == LLAMA_8B} == {"FP8"}
    assert len({c["precision"] for c in found if c["model"] == LLAMA_70B}) > 1


def test_other_lengths_take_the_place_of_the_declared_ones(capsys: pytest.CaptureFixture[str]) -> None:
    found = curves(capsys, "--lengths", "200/200,2000/200", "--concurrency", "10")

    assert [(c["inputTokens"], c["outputTokens"]) for c in found][::4] == [(200, 200), (2000, 200)]
    assert found[0]["points"][0]["ttftMilliseconds"] < found[4]["points"][0]["ttftMilliseconds"]


@pytest.mark.slow
@pytest.mark.parametrize(("output", "start"), [("html", b"<!DOCTYPE html>"), ("png", b"\x89PNG")])
def test_a_picture_goes_to_a_file_or_to_standard_output(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, output: str, start: bytes
) -> None:
    file = tmp_path / f"curve.{output}"
    line = ["curve", "-f", str(CALL_CENTER), "-o", output, "--x", "ITL", "--y", "rps_per_8_gpus", "--by", "precision"]

    assert main([*line, "--out", str(file)]) == 0
    assert capfdbinary.readouterr().out == b""
    assert main(line) == 0
    assert capfdbinary.readouterr().out.startswith(start)
    assert file.read_bytes().startswith(start)


def test_the_page_has_the_limit_and_the_choice(tmp_path: Path) -> None:
    file = tmp_path / "curve.html"

    assert main(["curve", "-f", str(CALL_CENTER), "-o", "html", "--out", str(file)]) == 0
    page = file.read_text(encoding="utf-8")
    for words in ("limit: TTFT P95 300 ms", "chosen: 39 x FP8 TP1", "knee of FP8 TP1", "Requests\\u002fs a GPU"):
        assert words in page


@pytest.mark.parametrize("y", ["ttft_ratio", "queueing"])
def test_the_views_of_queueing_are_drawn_against_the_load(tmp_path: Path, y: str) -> None:
    file = tmp_path / "curve.html"

    assert main(["curve", "-f", str(CALL_CENTER), "-o", "html", "--y", y, "--out", str(file)]) == 0
    assert "Requests\\u002fs a GPU" in file.read_text(encoding="utf-8")


def test_an_impossible_limit_still_has_curves(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = changed(tmp_path, sla={"timeToFirstToken": {"milliseconds": 1}})

    assert main(["curve", "-f", str(file)]) == 0
    out = capsys.readouterr().out
    assert "SingleRequestTTFT" in out
    assert "H100-SXM-80GB FP8 TP1 (Measured)" in out


def test_what_does_not_fit_is_told_beside_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curve", "-f", str(CALL_CENTER), "-o", "json", "--model", LLAMA_70B, "--concurrency", "1"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)
    assert f"left out {LLAMA_70B} H100-SXM-80GB FP8 TP1: ModelDoesNotFit: " in captured.err


def test_nothing_to_draw_exits_3_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curve", "-f", str(CALL_CENTER), "--lengths", "200000/200"]) == 3
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert "ContextWindowExceeded" in line
    assert captured.out == ""


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--concurrency", "0"), "--concurrency: '0' is not one of the whole numbers from 1"),
        (("--concurrency", "1.5"), "--concurrency: '1.5' is not one of"),
        (("--concurrency", ""), "--concurrency: '' is not one of"),
        (("--rates", "1,nan"), "--rates: 'nan' is not one of the numbers above 0"),
        (("--rates", "-1"), "--rates: '-1' is not one of"),
        (("--rates", "1e9"), "--rates: 1e+09 requests/s are not below"),
        (("--rates", ",".join(str(i) for i in range(1, 300))), "--rates: has 299 points; give at most 200"),
        (("--lengths", "200"), "--lengths: '200' is not a pair of numbers above 0"),
        (("--lengths", "0/5"), "--lengths: '0/5' is not a pair of numbers above 0"),
        (("--x", "speed"), "--x: 'speed' is not known; use one of ttft, itl, e2e"),
        (("--by", "color"), "--by: 'color' is not known; use one of tp, precision"),
        (("--model", "no-such-model"), "--model: unknown model 'no-such-model'"),
        (("--arrivals", "Poisson", "--concurrency", "1"), "--concurrency: has no meaning with --arrivals Poisson"),
        (("--arrivals", "ClosedLoop", "--rates", "1"), "--rates: has no meaning with --arrivals ClosedLoop"),
        (("--out", "/no/such/folder/x"), "--out: /no/such/folder/x: No such file or directory"),
        (("-o", "svg"), "argument -o/--output: invalid choice: 'svg'"),
    ],
)
def test_bad_input_exits_2_with_one_line_that_names_the_argument(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], line: str
) -> None:
    assert main(["curve", "-f", str(CALL_CENTER), *arguments]) == 2
    captured = capsys.readouterr()
    (shown,) = captured.err.splitlines()
    assert line in shown
    assert captured.out == ""


def test_an_offline_job_has_no_rates(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = changed(tmp_path, sla={"mode": "Offline"})

    assert main(["curve", "-f", str(file), "--rates", "1"]) == 2
    assert "--rates: in mode Offline nothing arrives at a rate" in capsys.readouterr().err


@pytest.mark.slow
def test_a_table_loads_no_package_that_draws() -> None:
    script = (
        "import sys; from firsttoken_operator.cli import main\n"
        f"status = main(['curve', '-f', {str(CALL_CENTER)!r}, '--concurrency', '1'])\n"
        "print(status, [name for name in ('plotly', 'matplotlib') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert shown.splitlines()[-1] == "0 []"
