from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_operator.cli import main

ROOT = Path(__file__).resolve().parents[3]
CALL_CENTER = ROOT / "examples/call-center.yaml"
TRACE = "arrival_s,input_tokens,output_tokens\n" + "".join(f"{i / 4},{500 + i},{20 + i}\n" for i in range(80))


def simulated(capsys: pytest.CaptureFixture[str], *arguments: str, file: Path = CALL_CENTER) -> dict[str, Any]:
    assert main(["simulate", "-f", str(file), "-o", "json", *arguments]) == 0
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, file: Path = CALL_CENTER) -> str:
    assert main(["simulate", "-f", str(file), *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def changed(tmp_path: Path, **spec: Any) -> Path:
    """The call center with parts of its spec replaced."""
    documents = list(yaml.safe_load_all(CALL_CENTER.read_text(encoding="utf-8")))
    for document in documents:
        if document["kind"] == "InferenceDeployment":
            document["spec"] = {**document["spec"], **spec}
    file = tmp_path / "deployment.yaml"
    file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return file


def test_without_more_it_is_the_sized_fleet_under_the_sized_load(capsys: pytest.CaptureFixture[str]) -> None:
    document = simulated(capsys, "--seconds", "60")

    assert (document["replicas"], document["arrivals"], document["batching"]) == (39, "ClosedLoop", "InFlight")
    assert document["seconds"] == 54
    # 39 replicas at concurrency 10 were measured to carry 202.6 requests/s.
    assert document["requestsPerSecond"] == pytest.approx(202.6, rel=0.08)
    assert document["meanBatch"] == pytest.approx(10, rel=0.05)
    (limit,) = document["sla"]
    assert (limit["limit"], limit["milliseconds"], limit["kept"]) == ("TTFT P95", 300, True)
    assert limit["simulatedMilliseconds"] == pytest.approx(document["ttftMilliseconds"]["p95"], rel=1e-5)


def test_more_load_on_the_same_replicas_waits_longer(capsys: pytest.CaptureFixture[str]) -> None:
    light, heavy = (
        simulated(capsys, "--arrivals", "poisson", "--replicas", "2", "--seconds", "60", "--rate", rate)
        for rate in ("6", "22")
    )

    assert light["ttftMilliseconds"]["p95"] < heavy["ttftMilliseconds"]["p95"]
    assert light["meanBatch"] < heavy["meanBatch"]
    assert light["gpuBusyPercent"] < heavy["gpuBusyPercent"] <= 100


@pytest.mark.slow
def test_bursts_wait_longer_than_poisson_arrivals(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("--replicas", "1", "--seconds", "200", "--rate", "8")

    poisson = simulated(capsys, *common, "--arrivals", "poisson")
    bursty = simulated(capsys, *common, "--arrivals", "bursty", "--gap-variation", "4")

    assert bursty["ttftMilliseconds"]["p95"] > 1.5 * poisson["ttftMilliseconds"]["p95"]


@pytest.mark.parametrize(("asked", "name"), [("static", "Static"), ("chunkedprefill", "ChunkedPrefill")])
def test_another_way_of_batching_is_simulated(capsys: pytest.CaptureFixture[str], asked: str, name: str) -> None:
    common = ("--arrivals", "poisson", "--replicas", "1", "--seconds", "60", "--rate", "5")

    document = simulated(capsys, *common, "--batching", asked)

    assert document["batching"] == name
    assert document["ttftMilliseconds"]["mean"] > simulated(capsys, *common)["ttftMilliseconds"]["mean"] * 0.9


def test_a_trace_is_replayed_and_every_request_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace, written = tmp_path / "trace.csv", tmp_path / "requests.csv"
    trace.write_text(TRACE)

    document = simulated(capsys, "--trace", str(trace), "--replicas", "1", "--requests", str(written))

    assert (document["arrivals"], document["requests"]) == ("trace", 80)
    with written.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [int(line["output_tokens"]) for line in lines] == [20 + i for i in range(80)]
    assert float(lines[-1]["finish_s"]) > 79 / 4
    assert simulated(capsys, "--trace", str(trace), "--replicas", "1", "--seconds", "10")["requests"] == 40


def test_the_same_seed_is_the_same_answer(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("--arrivals", "poisson", "--replicas", "2", "--seconds", "30", "--rate", "10")

    first, again, other = (simulated(capsys, *common, "--seed", seed) for seed in ("1", "1", "2"))

    assert first == again
    assert first["ttftMilliseconds"] != other["ttftMilliseconds"]


def test_the_table_and_the_page_are_for_people(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    common = ["simulate", "-f", str(CALL_CENTER), "--arrivals", "poisson", "--replicas", "1", "--rate", "6"]
    page, table = tmp_path / "batch.html", tmp_path / "table.txt"

    assert main([*common, "--seconds", "30"]) == 0
    shown = capsys.readouterr().out
    assert main([*common, "--seconds", "30", "--out", str(table)]) == 0
    assert main([*common, "--seconds", "30", "-o", "html", "--out", str(page)]) == 0

    assert "Poisson arrivals at 6 requests/s" in shown
    assert "kept" in shown
    assert "kept" in table.read_text()
    html = page.read_text()
    assert "InFlight batching" in html
    assert "Static batching" in html
    verdict = html.index('<p class="verdict">SLA kept with 1 replica of 1 x H100-SXM-80GB: TTFT P95 is ')
    assert html.index("<body>") < verdict < html.rindex("Plotly.newPlot(")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--rate", "-1"), "--rate: -1"),
        (("--rate", "nan"), "--rate: nan"),
        (("--seconds", "0"), "--seconds: 0"),
        (("--replicas", "0"), "--replicas: 0"),
        (("--concurrency", "-4"), "--concurrency: -4"),
        (("--seed", "-1"), "--seed: -1"),
        (("--arrivals", "ClosedLoop", "--rate", "3"), "--rate: has no meaning in a closed loop"),
        (("--arrivals", "poisson", "--concurrency", "3"), "--concurrency: has no meaning"),
        (("--rate", "3", "--concurrency", "3"), "--concurrency: has no meaning with --rate"),
        (("--gap-variation", "3"), "--gap-variation: is for bursty arrivals"),
        (("--trace", "none.csv"), "--trace: none.csv: No such file"),
        (("--trace", "none.csv", "--rate", "3"), "--rate: has no meaning with --trace"),
        (("--rate", "1e9"), "--seconds: 6e+11 requests"),
        (("--arrivals", "sometimes"), "argument --arrivals: 'sometimes' is not one of Poisson, Bursty, ClosedLoop"),
        (("--batching", "big"), "argument --batching: 'big' is not one of InFlight, ChunkedPrefill, Static"),
        (("--seconds", "1"), "--seconds: no request comes between 0.1 and 1 s"),
        (("--requests", "/nowhere/x.csv", "--seconds", "9"), "--requests: /nowhere/x.csv: No such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line_that_names_the_argument(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], named: str
) -> None:
    assert named in refused(capsys, *arguments)


def test_a_request_that_no_replica_can_hold_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n0,100000000,1\n")

    assert "--trace" in refused(capsys, "--trace", str(trace))


def test_requests_beyond_the_context_window_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n0,8000,192\n1,8000,193\n")

    assert main(["simulate", "-f", str(CALL_CENTER), "-o", "json", "--trace", str(trace), "--replicas", "1"]) == 0

    (line,) = capsys.readouterr().err.splitlines()
    assert "--trace: 1 of 2 requests exceed the context window" in line
    assert "8192 tokens" in line


def test_an_sla_that_no_size_meets_needs_replicas(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = changed(tmp_path, sla={"mode": "Streaming", "timeToFirstToken": {"milliseconds": 1}})

    assert main(["simulate", "-f", str(file)]) == 3
    assert "give --replicas" in capsys.readouterr().err
    document = simulated(
        capsys, "--replicas", "20", "--seconds", "20", "--arrivals", "poisson", "--rate", "20", file=file
    )
    assert document["sla"][0]["kept"] is False


def test_without_numba_it_says_why_it_is_slow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firsttoken_sizing.simulation.compiled.IS_COMPILED", False)

    assert main(["simulate", "-f", str(CALL_CENTER), "--replicas", "1", "--rate", "1", "--seconds", "20"]) == 0
    assert "pip install 'firsttoken[simulation]'" in capsys.readouterr().err


def test_a_page_without_plotly_is_refused_before_anything_is_simulated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("simulated")

    monkeypatch.delitem(sys.modules, "firsttoken_sizing.report.simulation_figure", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "plotly"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "plotly", None)  # what makes `import plotly` fail
    monkeypatch.setattr("firsttoken_operator.cli.simulate.size", never)

    assert "pip install 'firsttoken[plots]'" in refused(capsys, "-o", "html")


def test_files_with_several_deployments_give_a_list(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all(CALL_CENTER.read_text(encoding="utf-8")))
    second = next(d for d in documents if d["kind"] == "InferenceDeployment")
    file = tmp_path / "two.yaml"
    file.write_text(yaml.safe_dump_all([*documents, {**second, "metadata": {"name": "other"}}]), encoding="utf-8")

    assert main(["simulate", "-f", str(file), "-o", "json", "--seconds", "5"]) == 0
    assert [d["name"] for d in json.loads(capsys.readouterr().out)] == [second["metadata"]["name"], "other"]
    assert "--output" in refused(capsys, "-o", "html", file=file)
