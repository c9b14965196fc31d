"""The Makefile's two commands set up what they need, and say in one line what they cannot set up."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
OWN_CLUSTER = {"KUBECONFIG": "/some/kubeconfig", "PROMETHEUS_URL": "http://localhost:9090"}
BUILD = "-m tools.cluster"


def make(*arguments, folder=REPOSITORY, environment=None):
    inherited = {name: value for name, value in os.environ.items() if name not in OWN_CLUSTER}
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=inherited | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("target", "environment", "builds"),
    [
        pytest.param("test", {}, True, id="the tests build the control plane"),
        pytest.param("demo", {}, True, id="so does the demo"),
        pytest.param("cluster", {}, True, id="so does the cluster to try things on"),
        pytest.param("demo", OWN_CLUSTER, False, id="but not on a cluster of one's own"),
        pytest.param("demo", {"KUBECONFIG": "/some/kubeconfig"}, True, id="which takes its Prometheus as well"),
    ],
)
def test_the_control_plane_is_built_where_it_is_needed(target, environment, builds):
    commands = make("--dry-run", target, environment=environment)

    assert commands.returncode == 0, commands.stderr
    assert (BUILD in commands.stdout) == builds


def test_the_demo_on_a_real_node_makes_the_parts_of_one():
    on_a_node, on_paper = (make("--dry-run", "demo", *variables).stdout for variables in (["NODE=1"], []))

    assert "-m tools.node" in on_a_node
    assert "-m demo.node" in on_a_node
    assert "node" not in on_paper


def test_a_fresh_clone_installs_uv_and_the_lock_before_anything_else(tmp_path):
    for name in ("Makefile", "pyproject.toml", "uv.lock"):
        shutil.copy(REPOSITORY / name, tmp_path)

    commands = make("--dry-run", "test", folder=tmp_path).stdout

    steps = ["-m venv .venv", "pip install", "uv sync --frozen --all-extras", "ruff check", BUILD, "bin/pytest"]
    found = [commands.find(step) for step in steps]
    assert -1 not in found
    assert found == sorted(found)


def test_a_missing_python_is_one_clear_line(tmp_path):
    for name in ("Makefile", "pyproject.toml", "uv.lock"):
        shutil.copy(REPOSITORY / name, tmp_path)

    done = make("test", "PYTHON=python3.0", folder=tmp_path)

    assert done.returncode != 0
    assert "error: python3.0 is missing or older than 3.11; install Python >= 3.11 or set PYTHON=" in done.stderr
    assert not (tmp_path / ".venv").exists()
