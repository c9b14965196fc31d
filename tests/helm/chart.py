"""The chart as the real Helm renders it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
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
    return parsed(_rendered(values))


def parsed(text: str) -> list[dict[str, Any]]:
    """The documents of a stream of YAML."""
    # NB: the parser in C, where PyYAML has it: the definitions are 250 KB, and a hundred tests read them.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(text, loader) if document]


@cache
def _rendered(values: tuple[str, ...]) -> str:
    sets = [argument for value in values for argument in ("--set", value)]
    done = run_helm("template", "firsttoken", CHART, "--namespace", NAMESPACE, *sets)
    assert done.returncode == 0, done.stderr
    return done.stdout


def of_kind(manifests: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The manifests of one kind."""
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def leaves(*, sections: bool = False) -> Iterator[str]:
    """The path of each value that values.yaml has, with or without those that only hold others."""
    yield from _leaves(yaml.safe_load((CHART / "values.yaml").read_text()), (), sections)


def _leaves(values: dict[str, Any], above: tuple[str, ...], sections: bool) -> Iterator[str]:
    for key, value in values.items():
        path = (*above, key.replace(".", "\\."))
        holds_others = isinstance(value, dict) and bool(value)
        if sections or not holds_others:
            yield ".".join(path)
        if holds_others:
            yield from _leaves(value, path, sections)
