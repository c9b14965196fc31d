"""Modules of the source hold one idea each: at most 350 lines, but for the kernel of the simulator."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_LINES = 350
KERNEL = "sizing/src/firsttoken_sizing/simulation/kernel.py"
"""One file, because compiled code of a kernel that is split over several goes stale."""


def test_only_the_kernel_is_longer():
    trees = ("sizing/src", "operator/src", "benchmarks", "demo", "tools")
    files = [file for tree in trees for file in (ROOT / tree).rglob("*.py") if ".venv" not in file.parts]
    long = [file.relative_to(ROOT).as_posix() for file in files if len(file.read_text().splitlines()) > MOST_LINES]

    assert len(files) > 300
    assert long == [KERNEL]
