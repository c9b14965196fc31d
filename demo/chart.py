"""Chart of the operator: its definitions and rights for a process here, or a whole release where pods are real."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from demo.scenario import Scenario
from tools.cluster import helm

CHART = Path(__file__).parents[1] / "helm" / "firsttoken"
RELEASE, SYSTEM_NAMESPACE = "firsttoken", "firsttoken-system"
INSTALLED_KINDS = {
    "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
    "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}  # fmt: skip
"""Kinds of the chart that an operator in a process of its own needs: all but its Deployment."""
ROLLOUT_SECONDS = 300


def definitions_and_rights(*values: str) -> list[dict[str, Any]]:
    """Manifests of `INSTALLED_KINDS`, with these values of the chart: `key=value`."""
    return [document for document in _rendered(values) if document["kind"] in INSTALLED_KINDS]


def configuration(*values: str) -> dict[str, Any]:
    """Configuration of the operator as the chart writes it, with these values: `key=value`."""
    (found,) = (document for document in _rendered(values) if document["kind"] == "ConfigMap")
    settings: dict[str, Any] = yaml.safe_load(found["data"]["config.yaml"])
    return settings


def _rendered(values: Sequence[str]) -> list[dict[str, Any]]:
    settings = [argument for value in values for argument in ("--set", value)]
    rendered = subprocess.run(
        [helm(), "template", RELEASE, CHART, "--namespace", SYSTEM_NAMESPACE, *settings],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return [document for document in yaml.safe_load_all(rendered) if document]


def install(
    environment: dict[str, str], scenario: Scenario, image: str, prometheus_url: str, *, replicas: int, advisory: bool
) -> None:
    """Install the release, or upgrade it to these values. Raises `RuntimeError` with what Helm said."""
    repository, _, tag = image.rpartition(":")
    values: dict[str, Any] = {
        "image": {"repository": repository, "tag": tag},
        "replicas": replicas,
        "advisory": advisory,
        "prometheus": {"default": {"url": prometheus_url}},
        "render": {"enabled": True},
        "tickSeconds": round(scenario.tick_seconds),
        "scrapeIntervalSeconds": round(scenario.scrape_interval_seconds),
        "extraArgs": [
            f"--time-scale={scenario.time_scale:g}",
            f"--rate-window-seconds={scenario.rate_window_seconds:g}",
        ],
    }
    where = ("--namespace", SYSTEM_NAMESPACE, "--create-namespace")
    done = subprocess.run(
        [helm(), "upgrade", "--install", RELEASE, CHART, *where, "--values", "-"],
        input=yaml.safe_dump(values), capture_output=True, text=True, check=False, env=environment, timeout=120,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"helm: {done.stderr.strip()}")
