"""The suite is tested, too: each of the defects that cause outages in comparable systems must fail a test of ours.

A defect is one replacement in a copy of the operator's source; the named tests run against the copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "operator" / "src"
PACKAGE = "firsttoken_operator"
TESTS_FAILED = 1
"""pytest's exit status for failing tests; 2 to 5 would mean that they did not run."""


@dataclass(frozen=True, slots=True)
class Defect:
    """`old` becomes `new` in `file` of the package; `tests` must notice."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]


DEFECTS = {
    "unknown is read as 0": Defect(
        "estimate/demand.py",
        "    if not isinstance(arrivals, Value):\n        return None\n",
        "    if not isinstance(arrivals, Value):\n        return Demand(0.0, 0.0, 0.0)\n",
        ("tests/operator/decide/test_missing_data_never_scales_down.py",),
    ),
    "a restart does not hold": Defect(
        "decide/down.py",
        "    window_not_watched,\n",
        "",
        ("tests/operator/decide/test_scale_down_is_strict.py",),
    ),
    "completions are taken for arrivals": Defect(
        "observe/sums.py",
        "    return _added(_first_tokens(pod), _slope(pod, Signal.WAITING_SLOPE), failed)\n",
        "    return _ended(pod)\n",
        ("tests/operator/observe/test_arrivals_are_demand_not_completions.py",),
    ),
    "starting pods are not credited": Defect(
        "decide/propose.py",
        "    wanted = max(needed + _replaced(base.case, needed), limits.lower)\n",
        "    wanted = max(needed + _replaced(base.case, needed) + target.starting, limits.lower)\n",
        ("tests/operator/decide/test_scale_up_is_fast.py",),
    ),
    "a backlog is not drained": Defect(
        "estimate/target_load.py",
        "    backlog = demand.backlog_per_second * demand.request_cost\n",
        "    backlog = 0.0\n",
        ("tests/operator/decide/test_scale_up_is_fast.py",),
    ),
    "replicas that are not full teach that there is room": Defect(
        "estimate/tail_capacity.py",
        "    return min(max((sample.utilization - start) / (full - start), 0.0), 1.0)\n",
        "    return 1.0\n",
        ("tests/operator/estimate/test_late_first_tokens_correct_the_capacity.py",),
    ),
    "an idle fleet is one whose rate is 0, also where it is replayed": Defect(
        "observe/measure.py",
        "    idle = not findings and _proven_idle(seen)\n",
        "    idle = False\n",
        ("tests/lab/replay/test_samples_are_what_prometheus_would_know.py",),
    ),
    "the write carries no resourceVersion": Defect(
        "act/kubernetes.py",
        '{"uid": uid, "resourceVersion": resource_version}',
        '{"uid": uid}',
        ("tests/operator/act/test_a_write_needs_what_it_saw.py",),
    ),
}


def run_tests(source: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run tests in a process that imports the package from `source`."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def copy_of_the_source(folder: Path) -> Path:
    """A copy that shadows the installed package."""
    shutil.copytree(SOURCE / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
def test_a_seeded_defect_fails_a_test(name: str, tmp_path: Path) -> None:
    defect = DEFECTS[name]
    source = copy_of_the_source(tmp_path)
    file = source / PACKAGE / defect.file
    text = file.read_text()
    assert text.count(defect.old) == 1, "the defect no longer fits the code: update this table"
    file.write_text(text.replace(defect.old, defect.new))

    done = run_tests(source, defect.tests)

    assert done.returncode == TESTS_FAILED, f"no test noticed that {name}:\n{done.stdout}\n{done.stderr}"


@pytest.mark.slow
def test_the_copy_without_a_defect_passes_the_same_tests(tmp_path: Path) -> None:
    tests = tuple(dict.fromkeys(test for defect in DEFECTS.values() for test in defect.tests))

    done = run_tests(copy_of_the_source(tmp_path), tests)

    assert done.returncode == 0, done.stdout
