from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_rerunning_the_script_changes_nothing() -> None:
    if not (ROOT.parent / "shared/data/nim_dli.csv").is_file():
        pytest.skip("needs ../shared/data/nim_dli.csv")

    run = subprocess.run(
        [sys.executable, "benchmarks/fit_catalog.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stdout + run.stderr


def test_a_missing_data_folder_is_one_line_that_names_the_option(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "benchmarks/fit_catalog.py", "--data", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 2
    assert run.stderr.startswith("--data: ")
    assert len(run.stderr.splitlines()) == 1
