"""`firsttoken warm`: the pods that hold warm GPUs of a pool until any other pod wants them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_operator.cli import main
from tests.operator.observe.bodies import pool


def printed(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str, **spec: Any) -> list[dict[str, Any]]:
    """Manifests for one pool in the cloud."""
    file = folder / "pool.yaml"
    body = pool("h100", location="Cloud", **spec)
    file.write_text(yaml.safe_dump(body | {"metadata": {"name": "h100"}}))
    assert main(["warm", "-f", str(file), *arguments]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


@pytest.mark.parametrize(
    ("spec", "pods", "each"),
    [
        ({"warmGPUs": 16}, 2, "8"),
        ({"warmGPUs": 8}, 1, "8"),
        ({"warmGPUs": 3}, 1, "3"),
        ({"warmGPUs": 8, "gpusPerServer": 4}, 2, "4"),
    ],
)
def test_one_pod_holds_a_server_or_a_part_of_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, spec: dict[str, int], pods: int, each: str
) -> None:
    priority, deployment = printed(capsys, tmp_path, **spec)
    template = deployment["spec"]["template"]["spec"]

    assert (priority["kind"], priority["value"], priority["preemptionPolicy"]) == ("PriorityClass", -10, "Never")
    assert template["priorityClassName"] == priority["metadata"]["name"]
    assert deployment["spec"]["replicas"] == pods
    assert template["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": each}}
    assert (deployment["metadata"]["name"], deployment["metadata"]["namespace"]) == (
        "firsttoken-warm-h100", "firsttoken-system",
    )  # fmt: skip
    assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]


def test_they_go_where_the_pods_of_the_pool_go(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    taint = {"key": "example.com/gpu", "operator": "Exists"}
    selected = printed(capsys, tmp_path, warmGPUs=8, nodeSelector={"team": "a"}, tolerations=[taint])
    labelled = printed(capsys, tmp_path, "-n", "warm", "--image", "pause:1", warmGPUs=8)
    one, other = (each[1]["spec"]["template"]["spec"] for each in (selected, labelled))

    assert (one["nodeSelector"], taint in one["tolerations"]) == ({"team": "a"}, True)
    affinity = other["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (product,) = affinity["nodeSelectorTerms"][0]["matchExpressions"]
    assert product["key"] == "nvidia.com/gpu.product"
    assert "NVIDIA-H100-80GB-HBM3" in product["values"]
    assert (labelled[1]["metadata"]["namespace"], other["containers"][0]["image"]) == ("warm", "pause:1")


def test_they_are_restricted_and_end_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pod = printed(capsys, tmp_path, warmGPUs=8)[1]["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert (pod["terminationGracePeriodSeconds"], pod["automountServiceAccountToken"]) == (0, False)
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["seccompProfile"]) == (
        True, {"type": "RuntimeDefault"},
    )  # fmt: skip
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "no GPUPool declares spec.warmGPUs"),
        ({"warmGPUs": 12}, "set a multiple of gpusPerServer, or less than one server"),
        ({"warmGPUs": 8, "nodeProvisioning": "Manual"}, "GPUs that are there are ready anyway"),
        ({"warmGPUs": 8, "location": "OnPrem"}, "GPUs that are there are ready anyway"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, spec: dict[str, Any], words: str
) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(yaml.safe_dump(pool("h100", **{"location": "Cloud"} | spec) | {"metadata": {"name": "h100"}}))

    assert main(["warm", "-f", str(file)]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
