"""`firsttoken plan` on the fleet of the examples, and on small folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from firsttoken_operator.cli import main

ROOT = Path(__file__).resolve().parents[3]
FLEET = ROOT / "examples/fleet"
DEPLOYMENT = """apiVersion: firsttoken.dev/v1alpha1
kind: InferenceDeployment
metadata: {{name: {name}, namespace: shop}}
spec:
  model: {{name: meta-llama/Llama-3.1-8B-Instruct, precision: FP8}}
  traffic: {{inputTokens: 1000, outputTokens: 200, averageRequestsPerSecond: "20", peakRequestsPerSecond: "80"}}
  sla: {{timeToFirstToken: {{milliseconds: {ttft}, percentile: P95}}}}
  hardware: {{gpus: [H100-SXM-80GB]}}
  capacity: {{{pool}}}
  targetRef: {{name: {name}}}
"""
POOL = """apiVersion: firsttoken.dev/v1alpha1
kind: GPUPool
metadata: {{name: {name}}}
spec: {{location: OnPrem, gpu: {gpu}, peakGPUs: {gpus}}}
"""


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("plan") / "plan.json"
    assert main(["plan", "-f", str(FLEET), "--growth", "30%", "-o", "json", "--out", str(file)]) == 3
    plan: dict[str, Any] = json.loads(file.read_text())
    return plan


def folder(tmp_path: Path, *documents: str) -> Path:
    for number, text in enumerate(documents):
        (tmp_path / f"{number}.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def deployment(name: str = "chat", ttft: int = 300, pool: str = "") -> str:
    return DEPLOYMENT.format(name=name, ttft=ttft, pool=f"pool: {pool}" if pool else "")


def pool(name: str = "own", gpus: int = 16, gpu: str = "H100-SXM-80GB") -> str:
    return POOL.format(name=name, gpus=gpus, gpu=gpu)


def planned(capsys: pytest.CaptureFixture[str], *arguments: str | Path, status: int = 0) -> dict[str, Any]:
    assert main(["plan", *map(str, arguments), "-o", "json"]) == status
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)
    return plan


def test_it_says_who_lacks_gpus_and_when_and_what_to_buy(grown: dict[str, Any]) -> None:
    own, rented = grown["pools"]
    monday = own["shortages"][0]

    assert (grown["fits"], own["fits"], rented["fits"]) == (False, False, None)
    assert len(grown["deployments"]) == 10
    assert (own["gpus"], own["servers"]) == (40, 5)
    assert monday["start"].startswith("2026-11-16T1")
    assert len(own["shortages"]) == 7
    assert monday["needGPUs"] == own["gpusAtMost"] > 40
    assert monday["shortGPUs"] == sum(each["shortGPUs"] for each in monday["deployments"])
    assert own["serversToBuy"] == own["serversNeeded"] - 5 > 0
    # Those of the highest priority lack nothing.
    short = {d["name"]: d["shortHours"] for d in grown["deployments"]}
    assert all(short[d["name"]] == 0 for d in grown["deployments"] if d["priority"] == 100)
    assert max(short.values()) > 0


def test_the_stack_of_the_deployments_is_the_load_of_the_pool(grown: dict[str, Any]) -> None:
    stacked = [sum(slot) for slot in zip(*(d["gpus"] for d in grown["deployments"]), strict=True)]
    own = grown["pools"][0]

    assert len(stacked) == 7 * 24 * 4
    assert max(stacked) == own["gpusAtMost"]
    assert sum(stacked) / len(stacked) == pytest.approx(own["gpusOnAverage"], abs=1e-3)


def test_a_base_that_is_owned_and_a_peak_that_is_rented_cost_less_than_either(grown: dict[str, Any]) -> None:
    split = grown["pools"][0]["baseAndBurst"]

    # 119,000 a year of a server of 8 against 8 x 4 x 8760.
    assert split["breakEvenPercent"] == pytest.approx(100 * 119_000 / 280_320, abs=1e-3)
    assert split["perYear"] < min(split["perYearAllOwn"], split["perYearAllRented"])
    assert split["perYear"] == pytest.approx(
        119_000 * split["servers"] + split["rentedGPUHoursPerWeek"] / (24 * 7) * 8760 * 4, rel=1e-4
    )
    assert split["baseGPUs"] + split["mostRentedGPUs"] == grown["pools"][0]["gpusAtMost"]


def test_the_week_of_a_small_folder_is_a_table_and_a_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = folder(tmp_path, deployment(pool="own"), pool(gpus=3))
    assert main(["plan", "-f", str(files)]) == 3
    shown = " ".join(capsys.readouterr().out.split())
    page = tmp_path / "week.html"
    assert main(["plan", "-f", str(files), "-o", "html", "--out", str(page)]) == 3

    assert "It does not fit: own is short in " in shown
    assert "own is short by " in shown
    assert "GPUs every day from " in shown
    assert "shop/chat lacks " in shown
    assert "Load of the week against the pools" in page.read_text()
    assert '"stackgroup":"stacked"' in page.read_text()


def test_pools_of_another_file_stand_in_for_those_of_the_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = folder(tmp_path, deployment(pool="own"), pool(gpus=4))
    other = tmp_path / "other"
    other.mkdir()
    (other / "pool.yaml").write_text(pool("bigger", 64), encoding="utf-8")
    plan = planned(capsys, "-f", files, "--pool", other / "pool.yaml")

    assert [p["name"] for p in plan["pools"]] == ["bigger"]
    assert plan["deployments"][0]["pool"] == "bigger"
    assert main(["plan", "-f", str(files), "--pool", str(other / "pool.yaml")]) == 0
    assert "GPUPool own is not there, so it is planned in bigger" in " ".join(capsys.readouterr().out.split())


def test_without_a_pool_it_says_what_hardware_would_do(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = planned(capsys, "-f", folder(tmp_path, deployment()))
    (of_the_gpu,) = plan["pools"]

    assert (of_the_gpu["name"], of_the_gpu["gpus"], of_the_gpu["fits"]) == ("H100-SXM-80GB", None, None)
    assert of_the_gpu["serversNeeded"] == -(-of_the_gpu["gpusAtMost"] // 8) > 0
    assert of_the_gpu["cost"] is None


def test_growth_and_a_recorded_week_change_the_load(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "week.csv"
    trace.write_text("t,rps\n0,40\n604800,40\n", encoding="utf-8")
    files = folder(tmp_path, deployment(pool="own"), pool(gpus=64))
    usual, grown, recorded = (
        planned(capsys, "-f", files, *more)["deployments"][0]
        for more in ((), ("--growth", "100%"), ("--trace", f"shop/chat={trace}"))
    )

    assert usual["gpusAtMost"] < grown["gpusAtMost"] <= 2 * usual["gpusAtMost"] + 1
    assert recorded["gpusOnAverage"] == recorded["gpusAtMost"] < usual["gpusAtMost"]


def test_an_sla_that_no_size_meets_is_named_and_in_no_sum(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = folder(tmp_path, deployment(pool="own"), deployment("hasty", ttft=1, pool="own"), pool(gpus=64))
    plan = planned(capsys, "-f", files, status=3)
    chat, hasty = plan["deployments"]

    assert (hasty["feasible"], hasty["replicas"], plan["fits"]) == (False, None, False)
    assert plan["pools"][0]["gpusAtMost"] == chat["gpusAtMost"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--growth", "a third"), "'a third' is no growth; write 30%"),
        (("--growth=-100%",), "'-100%' is no growth"),
        (("--trace", "absent=week.csv"), "there is no InferenceDeployment absent"),
        (("--trace", "week.csv", "--trace", "week.csv"), "is the second for the same"),
        (("--trace", "https://example.com/week.csv"), "is a URL"),
        (("--pool", "chat.yaml"), "has no GPUPool"),
    ],
)
def test_what_cannot_be_planned_is_one_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    problem: str,
) -> None:
    (tmp_path / "week.csv").write_text("t,rps\n0,1\n60,1\n", encoding="utf-8")
    (tmp_path / "chat.yaml").write_text(deployment(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert main(["plan", "-f", "chat.yaml", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line


@pytest.mark.parametrize(
    ("pools", "problem"),
    [
        ((pool("one"), pool("two")), "one, two has one of its GPUs; name one of one, two"),
        ((pool(gpu="L40S"),), "none has one of its GPUs"),
    ],
)
def test_a_deployment_is_in_no_pool_by_guessing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, pools: tuple[str, ...], problem: str
) -> None:
    assert main(["plan", "-f", str(folder(tmp_path, deployment(), *pools))]) == 2
    assert problem in capsys.readouterr().err
