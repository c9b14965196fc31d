"""The image is built for amd64 and arm64 without a compiler: each package in it is locked with a wheel for both."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tools.cluster.uv import uv

PYTHON = r"(cp311-cp311|cp3\d+-abi3|py3-none|py2\.py3-none)"
ROOT = Path(__file__).parents[2]
SYSTEM = {"amd64": r"(manylinux\S*_x86_64|any)", "arm64": r"(manylinux\S*_aarch64|any)"}


@pytest.mark.parametrize("architecture", SYSTEM)
def test_each_package_has_one(architecture: str) -> None:
    wanted = re.compile(rf"-{PYTHON}-\S*{SYSTEM[architecture]}\.whl$")
    without = {name for name, wheels in locked().items() if not any(wanted.search(wheel) for wheel in wheels)}

    assert len(locked()) > 15
    assert not without


def locked() -> dict[str, list[str]]:
    """Wheels of each package that the Dockerfile installs."""
    options = ["--quiet", "--frozen", "--offline", "--no-dev", "--no-hashes", "--no-emit-project", "--no-annotate"]
    command = [uv(), "export", *options, "--extra", "operator", "--no-emit-package", "scipy"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    # What is for Windows alone gets into no image.
    lines = [line for line in said.splitlines() if "==" in line and "sys_platform == 'win32'" not in line]
    names = {line.partition("==")[0] for line in lines}
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    # A package may be locked in two versions, for older and newer Pythons.
    return {
        name: [wheel["url"] for p in packages if p["name"] == name for wheel in p.get("wheels", [])] for name in names
    }
