"""`firsttoken replay` judges by the operator's `observe` and `decide`, and needs none of its packages."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = str(ROOT / "examples/call-center.yaml")
EXTRAS = ("operator", "plots", "simulation")
PROGRAM = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from firsttoken_operator.cli import main
sys.exit(main({arguments}))
"""


def packages_of_the_extras() -> set[str]:
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return {wanted.partition(">")[0].replace("-", "_") for extra in EXTRAS for wanted in optional[extra]}


def without_the_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    absent = packages_of_the_extras()
    assert {"kubernetes", "aiohttp", "prometheus_api_client", "requests", "numba", "plotly"} <= absent
    program = PROGRAM.format(absent=absent, arguments=["replay", *arguments])
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize("traffic", ["trace.csv", "sample-hour.csv"])
def test_traffic_is_replayed_without_the_packages_of_any_extra(traffic: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n" + "".join(f"{at},500,20\n" for at in range(60)))
    chosen = ["--trace", str(trace)] if traffic == "trace.csv" else ["--rate-scale", "0.0002"]

    done = without_the_extras("-f", EXAMPLE, *chosen, "-o", "json", "--policy", "firsttoken")

    assert done.returncode == 0, done.stderr
    assert [(result["policy"], result["trace"]) for result in json.loads(done.stdout)] == [("firsttoken", traffic)]
    assert "numba is not installed" in done.stderr
    assert "--rate-scale" in done.stderr


def test_its_arguments_are_explained_without_them() -> None:
    done = without_the_extras("--help")

    assert done.returncode == 0, done.stderr
    assert "--rate-scale" in done.stdout


def test_a_page_is_refused_before_anything_is_replayed() -> None:
    done = without_the_extras("-f", EXAMPLE, "-o", "html")

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "pip install 'firsttoken[plots]'" in line
