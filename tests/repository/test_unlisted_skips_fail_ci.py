"""In CI a skipped test that is not listed is a failed run; elsewhere it is a skip."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skip_gate import allowed_prefixes

pytestmark = pytest.mark.slow  # each starts a pytest of its own

REPOSITORY = Path(__file__).parents[2]
SUITE = """
import pytest

def test_passes():
    pass

@pytest.mark.skip(reason="no GPU here")
def test_needs_a_gpu():
    raise AssertionError
"""
LISTED = "test_suite.py::test_needs # CI has no GPU\n"


def run_suite(
    folder: Path, *, allowed: str, ci: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """pytest on a suite of its own, with a copy of the gate beside its own list."""
    (folder / "skip_gate.py").write_text((REPOSITORY / "tests/skip_gate.py").read_text())
    (folder / "allowed_skips.txt").write_text(allowed)
    (folder / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-p", "skip_gate", "-p", "no:cacheprovider", *options, "test_suite.py"]
    environment = os.environ | {"CI": ci, "PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("ci", "allowed", "code"),
    [
        pytest.param("true", "", 1, id="an unlisted skip fails CI"),
        pytest.param("true", LISTED, 0, id="a listed one does not"),
        pytest.param("true", "test_suite.py::test_other # gone\n", 1, id="another test's line does not help"),
        pytest.param("", "", 0, id="a developer may skip"),
    ],
)
def test_a_skip_decides_the_run(tmp_path, ci, allowed, code):
    done = run_suite(tmp_path, allowed=allowed, ci=ci)

    assert done.returncode == code, done.stdout
    message = "skipped, and not named in allowed_skips.txt: test_suite.py::test_needs_a_gpu"
    assert (message in done.stdout) == (code == 1)
    assert "1 passed, 1 skipped" in done.stdout


def test_a_skip_in_a_worker_counts(tmp_path):
    done = run_suite(tmp_path, allowed="", ci="true", options=("--numprocesses", "2", "--dist", "loadscope"))

    assert done.returncode == 1, done.stdout
    assert "skipped, and not named in allowed_skips.txt: test_suite.py::test_needs_a_gpu" in done.stdout


def test_a_module_skipped_as_a_whole_counts(tmp_path):
    (tmp_path / "test_missing.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = test_missing.py\n")

    done = run_suite(tmp_path, allowed=LISTED, ci="true")

    assert done.returncode == 1, done.stdout
    assert "not named in allowed_skips.txt: test_missing.py" in done.stdout


def test_the_list_of_this_project_names_tests_that_exist():
    for prefix in allowed_prefixes((REPOSITORY / "tests/allowed_skips.txt").read_text()):
        assert (REPOSITORY / prefix.split("::")[0]).exists()


def test_a_line_without_a_reason_is_refused():
    with pytest.raises(ValueError, match=r"line 2: 'tests/x.py::test_y' names no reason"):
        allowed_prefixes("# comment\ntests/x.py::test_y\n")
