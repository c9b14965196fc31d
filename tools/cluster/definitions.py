"""Definitions of other projects' custom resources, read from their pinned Go modules, once, into the cache.

Nothing is built: a module's archive holds the definitions as the project installs them. The sums are those of go.sum.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.build import GO_ENVIRONMENT, go_command
from tools.cluster.cache import cached
from tools.cluster.progress import SetupError, run_with_progress


@dataclass(frozen=True, slots=True)
class Definition:
    """One file with a definition, in the module of one version and its sum."""

    module: str
    version: str
    sum: str
    path: str


LEADER_WORKER_SET = Definition(
    "sigs.k8s.io/lws",
    "v0.8.0",
    "h1:DdhJ8QabwTfWgbgaHH2gdf8twliioHaoSfmDXRYEVU0=",
    "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
)
INFERENCE_SERVICE = Definition(
    "github.com/kserve/kserve",
    "v0.16.0",
    "h1:kDkcAU5VMiZf4zhdDXH+UdAIgzXhs10GMv0d9r4qvTs=",
    "config/crd/full/serving.kserve.io_inferenceservices.yaml",
)
POD_MONITOR = Definition(
    "github.com/prometheus-operator/prometheus-operator",
    "v0.85.0",
    "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
    "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
)


def definition_of(wanted: Definition) -> Path:
    """The file of a definition, fetched now where the cache has none.

    Raises `SetupError` without Go or its modules, or where the module is not the one that is pinned.
    """
    key = hashlib.sha256(repr(wanted).encode()).hexdigest()[:16]
    name = Path(wanted.path).name
    return cached("definitions", key, lambda out: _fetch(wanted, out / name)) / name


def _fetch(wanted: Definition, to: Path) -> None:
    command: list[str | Path] = [go_command(), "mod", "download", "-json", f"{wanted.module}@{wanted.version}"]
    # NB: outside of any module, or the whole graph of its dependencies would be asked for.
    with tempfile.TemporaryDirectory() as nowhere:
        answer = run_with_progress(wanted.module, command, env=os.environ | GO_ENVIRONMENT, cwd=Path(nowhere))
    found = json.loads(answer)
    if found["Sum"] != wanted.sum:
        raise SetupError(f"{wanted.module} {wanted.version} is {found['Sum']}, not {wanted.sum} as pinned")
    shutil.copyfile(Path(found["Dir"]) / wanted.path, to)
