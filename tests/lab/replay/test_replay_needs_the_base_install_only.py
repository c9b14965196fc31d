"""`firsttoken replay` of a trace judges by the operator's `observe` and `decide`, and needs none of its packages."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
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


@pytest.mark.slow
def test_a_trace_is_replayed_without_the_packages_of_any_extra(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n" + "".join(f"{at},500,20\n" for at in range(60)))
    arguments = ["replay", "-f", str(ROOT / "examples/call-center.yaml"), "--trace", str(trace), "-o", "json"]
    absent = packages_of_the_extras()
    assert {"kubernetes", "aiohttp", "prometheus_api_client", "requests", "numba"} <= absent

    program = PROGRAM.format(absent=absent, arguments=[*arguments, "--policy", "firsttoken"])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)

    assert done.returncode == 0, done.stderr
    assert [result["policy"] for result in json.loads(done.stdout)] == ["firsttoken"]
