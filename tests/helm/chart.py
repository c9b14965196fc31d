"""The chart as the real Helm renders it."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tools.cluster import helm

CHART = Path(__file__).parents[2] / "helm" / "firsttoken"
CRDS = Path(__file__).parents[2] / "crds"
NAMESPACE = "firsttoken-system"


def run_helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Helm offline and return what it said."""
    return subprocess.run([helm(), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


def render(*values: str) -> list[dict[str, Any]]:
    """The manifests of a release called `firsttoken` with `--set` values."""
    # NB: the parser in C, where PyYAML has it: the definitions are 250 KB, and a hundred tests read them.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(_rendered(values), loader) if document]


@cache
def _rendered(values: tuple[str, ...]) -> str:
    sets = [argument for value in values for argument in ("--set", value)]
    done = run_helm("template", "firsttoken", CHART, "--namespace", NAMESPACE, *sets)
    assert done.returncode == 0, done.stderr
    return done.stdout


def of_kind(manifests: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The manifests of one kind."""
    return [manifest for manifest in manifests if manifest["kind"] == kind]
