"""One answer for servers of one's own and for GPUs that are rented."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firsttoken_operator.cli import main

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples/on-prem-or-cloud.yaml"


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
