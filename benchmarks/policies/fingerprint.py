"""Hash of all that a figure depends on: the sources of the simulator, of the policy that played, and the scenario.

Our law changes often and a peer's play takes as long as ours, so a peer's figures stand while only our law changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import firsttoken_lab
import firsttoken_operator
import firsttoken_sizing
from policies.cells import Cell
from policies.scenarios import SCENARIOS

OURS = "firsttoken"
CAUSAL = "causal-bound"
_LAB, _OPERATOR, _SIZING = (
    Path(str(package.__file__)).parent for package in (firsttoken_lab, firsttoken_operator, firsttoken_sizing)
)
_HERE = Path(__file__).resolve().parent
_SHOWN_ONLY = {"report.py", "picture.py", "history.py"}
"""Modules of `replay` that no play depends on."""
_OURS_ONLY = tuple(_LAB / "replay" / name for name in ("policies/ours.py", "observed.py"))
"""Modules that only our policy looks through."""
_CAUSAL_ONLY = tuple(_LAB / "replay" / name for name in ("causal.py", "moves.py"))
"""Modules that only the causal bound depends on."""
_STAGE = ("playing.py", "contenders.py", "traffic.py", "deployment.yaml")
"""Files of this folder that every play depends on."""


def fingerprint(cell: Cell) -> str:
    """Changes with everything that the figures of a cell depend on and that the cell does not say."""
    code = _law() if cell.policy == OURS else _bound() if cell.policy == CAUSAL else _stage()
    return hashlib.sha256(f"{code}\n{SCENARIOS[cell.scenario]!r}".encode()).hexdigest()[:16]


@cache
def _stage() -> str:
    apart = (*_OURS_ONLY, *_CAUSAL_ONLY)
    replay = [file for file in sources(_LAB / "replay") if file.name not in _SHOWN_ONLY and file not in apart]
    sizing = [file for file in sources(_SIZING) if file.relative_to(_SIZING).parts[0] not in {"report", "benchmarks"}]
    shared = (_OPERATOR / "decide/bounds.py",)
    # What is declared, and what is taken where nothing is.
    defaults = (_OPERATOR / "api" / name for name in ("inference_deployment.py", "traffic.py", "sla.py", "convert.py"))
    return digest([*replay, *sizing, *shared, *defaults, *(_HERE / name for name in _STAGE)])


@cache
def _law() -> str:
    packages = ("decide", "estimate", "domain", "families", "observe")
    own = [file for package in packages for file in sources(_OPERATOR / package)]
    return f"{_stage()}\n{digest([*own, *_OURS_ONLY])}"


@cache
def _bound() -> str:
    return f"{_stage()}\n{digest([*_CAUSAL_ONLY])}"


def sources(folder: Path) -> Iterator[Path]:
    """Python and data files below a folder, in a fixed order."""
    yield from sorted(file for file in folder.rglob("*") if file.suffix in {".py", ".json"})


def digest(files: list[Path]) -> str:
    """Hash of names and contents."""
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    return total.hexdigest()
