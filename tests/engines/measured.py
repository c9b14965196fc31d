"""Benchmarks of real servers on their way to a size: AIPerf's file, the profile made of it, the answer that uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_operator.cli import main
from tests.operator.act.objects import infd

MODEL, PRECISION = "meta-llama/Meta-Llama-3-8B-Instruct", "BF16"
SLOWEST_MILLISECONDS = 60_000


def imported(report: Path, engine: str, version: str) -> dict[str, Any]:
    """The one profile that `firsttoken import` makes of a report, as if the server had run this model on a GPU."""
    declared = ["--model", MODEL, "--gpu", "H100-SXM-80GB", "--precision", PRECISION, "--tensor-parallel", "1",
                "--engine", engine, "--engine-version", version]  # fmt: skip
    written = report.with_name("profiles.yaml")
    assert main(["import", str(report), *declared, "--out", str(written)]) == 0
    (profile,) = yaml.safe_load_all(written.read_text())
    assert isinstance(profile, dict)
    return profile


def assert_sized_by(profile: dict[str, Any], engine: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Size traffic of the profile's lengths: the measured replica carries what it carried, and no model is asked."""
    made = profile["spec"]
    (point,) = made["points"]
    measured = float(point["requestsPerSecond"])
    declaration = infd(
        model={"name": made["model"], "precision": PRECISION},
        traffic={"inputTokens": made["inputTokens"], "outputTokens": made["outputTokens"],
                 "peakRequestsPerSecond": f"{10 * measured:.3f}"},
        sla={"timeToFirstToken": {"milliseconds": SLOWEST_MILLISECONDS}},
        hardware={"gpus": [made["gpu"]], "tensorParallel": 1},
        sizing={"engine": engine, "arrivals": "ClosedLoop"},
    )  # fmt: skip
    both = folder / "both.yaml"
    both.write_text(yaml.safe_dump_all([declaration, profile]))
    capsys.readouterr()
    assert main(["size", "-f", str(both), "-o", "json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert answer["basis"] == "Measured"
    assert profile["metadata"]["name"] in answer["reason"]
    assert answer["requestsPerSecondPerReplica"] == pytest.approx(measured, rel=0.01)
    assert answer["replicasLow"] <= 10 <= answer["replicas"] + 1
