from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from firsttoken_lab.replay.compare import NAMES
from firsttoken_operator.cli import main

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/call-center.yaml"
SERIES = "t,rps,mean_in,mean_out\n0,10,1800,150\n600,40,1800,150\n1200,10,1800,150\n"
KEYS = [
    "policy",
    "trace",
    "requests",
    "rateScale",
    "slaAttainmentPercent",
    "worstHourAttainmentPercent",
    "shareOfWindowsUnder95Percent",
    "gpuHours",
    "gpuHoursStandby",
    "gpuHoursClairvoyant",
    "gpuHoursStaticPeak",
    "scaleEvents",
    "seed",
]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("traces") / "hump.csv"
    file.write_text(SERIES, encoding="utf-8")
    return file


def replay(trace: Path, *arguments: str) -> int:
    return main(["replay", "-f", str(EXAMPLE), "--trace", str(trace), *arguments])


def documents(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, list)
    return answer


@pytest.mark.slow
def test_json_has_one_object_for_each_policy_in_the_order_asked_for(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["static-peak", "firsttoken", "hpa", "knative"]
    options = ["--rate-scale", "0.5", "--seed", "3", "--cold-start-seconds", "60", "-o", "json"]
    assert replay(trace, *options, *(word for name in names for word in ("--policy", name))) == 0
    answer = documents(capsys)

    assert [document["policy"] for document in answer] == names
    for document in answer:
        assert list(document) == KEYS
        assert (document["trace"], document["rateScale"], document["seed"]) == ("hump.csv", 0.5, 3)
        assert document["requests"] == pytest.approx(15_000, rel=0.05)
        assert 0 <= document["slaAttainmentPercent"] <= 100
        assert document["gpuHoursClairvoyant"] == answer[0]["gpuHoursClairvoyant"]
    static = answer[0]
    assert static["scaleEvents"] == 0
    assert static["gpuHours"] == pytest.approx(static["gpuHoursStaticPeak"], rel=1e-4)


@pytest.mark.slow
def test_a_table_and_a_page_show_the_same_policies(
    trace: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "replay.html"
    chosen = ["--policy", "hpa", "--policy", "clairvoyant", "--rate-scale", "0.2"]
    assert replay(trace, *chosen) == 0
    table = capsys.readouterr()
    assert replay(trace, *chosen, "-o", "html", "--out", str(page)) == 0

    for text in (table.out, page.read_text(encoding="utf-8")):
        assert "hpa" in text
        assert "clairvoyant" in text
        assert "static-p95" not in text
    assert "firsttoken: hpa: " in table.err
    html = page.read_text(encoding="utf-8")
    assert len(html) < 1_500_000
    verdict = html.index('<p class="verdict">hpa keeps the SLA (95 % inside) with the fewest GPU-hours, ')
    assert verdict < html.rindex("Plotly.newPlot(")
    for panel in ("Load", "Replicas", "TTFT, P95", "Outside the SLA", "GPU-hours"):
        assert panel in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rate-scale", "0"], "--rate-scale: 0 is out of range; use a number above 0"),
        (["--length-cv", "-1"], "--length-cv: -1 is out of range; use a number of 0 or more, at most 10"),
        (["--cold-start-seconds", "inf"], "--cold-start-seconds: inf is out of range"),
        (["--seed", "-1"], "--seed: -1 is negative"),
        (["--policy", "magic"], "invalid choice: 'magic'"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    trace: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert replay(trace, *arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()

    assert words in line


@pytest.mark.parametrize(
    ("policies", "minutes", "scale"), [((), 83, 0.01), (("--policy", "hpa"), 41, 0.02)], ids=["all", "one"]
)
def test_without_numba_it_says_how_long_it_takes_and_which_share_a_minute(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    policies: tuple[str, ...],
    minutes: int,
    scale: float,
) -> None:
    def never(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("firsttoken_sizing.simulation.compiled.IS_COMPILED", False)
    monkeypatch.setattr("firsttoken_operator.cli.replay.scene_of", never)

    assert main(["replay", "-f", str(EXAMPLE), *policies]) == 130
    line = capsys.readouterr().err.splitlines()[0]
    assert f"in plain Python, about {minutes} minutes, hundreds of times as long" in line
    assert line.endswith(f"or use a smaller --rate-scale, such as {scale}")


def test_the_policies_of_the_contract_are_there() -> None:
    assert {"firsttoken", "hpa", "keda", "knative", "static-peak", "static-p95", "clairvoyant"} <= set(NAMES)
