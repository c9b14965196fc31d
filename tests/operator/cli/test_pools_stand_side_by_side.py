"""One answer for servers of one's own and for GPUs that are rented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_operator.cli import main

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples/on-prem-or-cloud.yaml"
TWO_TYPES = ROOT / "examples/two-gpu-types.yaml"


def sized(capsys: pytest.CaptureFixture[str], file: Path) -> list[dict[str, object]]:
    assert main(["size", "-f", str(file), "-o", "json"]) == 0
    pools = json.loads(capsys.readouterr().out)["pools"]
    assert isinstance(pools, list)
    return pools


def changed(tmp_path: Path, old: str, new: str) -> Path:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert old in text
    file = tmp_path / "changed.yaml"
    file.write_text(text.replace(old, new), encoding="utf-8")
    return file


def test_bought_and_rented_gpus_are_one_answer(capsys: pytest.CaptureFixture[str]) -> None:
    bought, rented = sized(capsys, EXAMPLE)

    assert (bought["pool"], bought["location"], rented["pool"], rented["location"]) == (
        "own-servers",
        "OnPrem",
        "by-the-hour",
        "Cloud",
    )
    assert bought["gpus"] == rented["gpus"]
    assert bought["enough"] is True
    assert rented["enough"] is None
    assert isinstance(bought["cost"], dict)
    assert bought["cost"]["perYear"] == 119_000 * bought["servers"]  # type: ignore[operator]
    assert isinstance(rented["cost"], dict)
    assert rented["cost"]["perYearAutoscaled"] < bought["cost"]["perYear"]


def test_the_table_says_which_is_cheaper_and_from_which_load_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "-f", str(EXAMPLE)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Side by side" in shown
    assert "Cheapest: by-the-hour, " in shown
    assert "own-servers costs less than by-the-hour, autoscaled, from an average of" in shown


def test_a_pool_that_is_too_small_is_never_the_cheapest(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = changed(tmp_path, "peakGPUs: 16", "peakGPUs: 2")

    assert sized(capsys, file)[0]["enough"] is False
    assert main(["size", "-f", str(changed(tmp_path, "peakGPUs: 16", "peakGPUs: 2"))]) == 0
    assert "Cheapest: by-the-hour, " in capsys.readouterr().out


@pytest.mark.parametrize("gpu", ["L40S", "H200-SXM-141GB"])
def test_pools_with_other_gpus_than_the_declared_ones_are_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, gpu: str
) -> None:
    assert (
        sized(capsys, changed(tmp_path, "location: OnPrem\n  gpu: H100-SXM-80GB", f"location: OnPrem\n  gpu: {gpu}"))
        == []
    )


def mixed(capsys: pytest.CaptureFixture[str], file: Path, *more: str) -> dict[str, Any]:
    assert main(["size", "-f", str(file), "-o", "json", *more]) == 0
    mix = json.loads(capsys.readouterr().out)["mix"]
    assert isinstance(mix, dict)
    return mix


def test_two_gpu_types_carry_the_peak_for_less_than_one(capsys: pytest.CaptureFixture[str]) -> None:
    mix = mixed(capsys, TWO_TYPES)

    assert mix["feasible"] is True
    assert {part["pool"]: part["spot"] for part in mix["parts"]} == {"few-h100": False, "many-l40s": False}
    assert mix["costPerHour"] < mix["cheapestAloneCostPerHour"]
    assert mix["carriedPercent"] >= 100
    assert sum(part["trafficPercent"] for part in mix["parts"]) == pytest.approx(100, abs=1e-4)


def test_a_part_of_the_peak_may_be_on_spot(capsys: pytest.CaptureFixture[str]) -> None:
    mix = mixed(capsys, TWO_TYPES, "--on-demand-percent", "60")

    assert mix["onDemandPercent"] == 60
    assert any(part["spot"] for part in mix["parts"])
    assert 60 <= mix["carriedPercentWithoutSpot"] < 100
    assert sum(part["gpus"] for part in mix["parts"] if part["pool"] == "few-h100") <= 8
    assert mix["costPerHour"] < mixed(capsys, TWO_TYPES)["costPerHour"]


def test_one_pool_has_a_mix_where_spot_is_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = changed(tmp_path, 'gpuHour: "4"', 'gpuHour: "4"\n    spotGPUHour: "1"')
    documents = [
        d for d in yaml.safe_load_all(file.read_text(encoding="utf-8")) if d["metadata"]["name"] != "own-servers"
    ]
    file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")

    mix = mixed(capsys, file, "--on-demand-percent", "0")

    assert [(part["pool"], part["spot"]) for part in mix["parts"]] == [("by-the-hour", True)]
    assert main(["size", "-f", str(file), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["mix"] is None


@pytest.mark.parametrize(
    ("percent", "said"),
    [
        ("101", "--on-demand-percent: 101 is out of range; use a number of 0 or more, at most 100"),
        ("nan", "--on-demand-percent: nan is out of range; use a number of 0 or more, at most 100"),
        ("50", "--on-demand-percent: no GPUPool of the file with one of hardware.gpus has a price on spot; set its"),
    ],
)
def test_a_share_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str], percent: str, said: str) -> None:
    assert main(["size", "-f", str(EXAMPLE), "--on-demand-percent", percent]) == 2
    assert said in capsys.readouterr().err
