"""The same question has the same answer on every machine, to four significant digits and to the replica.

Two processors differ in the last bits of exponentials and sums, and in how they sort what is equal. Here one processor
plays others: numpy without the instructions that it would choose by itself, and, where the platform knows them, old
kernels of the C library and of OpenBLAS. And last bits are changed on purpose, more of them than any processor changes.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from firsttoken_sizing.optimize import evaluate
from firsttoken_sizing.step import FittedStep, StepModel, step_for
from tests.fixtures.sizing_questions import answers

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SUPPORTED = tuple(name for name in __cpu_dispatch__ if __cpu_features__[name])
"""Instructions that numpy chooses among on this CPU, from the oldest to the newest."""
OLD_KERNELS = {"OPENBLAS_CORETYPE": "Nehalem", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"}
FOUR_DIGITS = 5e-5


@cache
def run(disabled: tuple[str, ...] = (), *, old_kernels: bool = False) -> dict[str, Any]:
    """CPU features and answers of a process in which numpy may not use some features."""
    environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": " ".join(disabled)} | (OLD_KERNELS if old_kernels else {})
    command = [sys.executable, "-m", "tests.fixtures.sizing_questions"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answered: dict[str, Any] = json.loads(done.stdout)
    return answered


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Places at which two documents differ: in a fourth digit, or in anything that is no fraction."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from differences(one[key], other[key], f"{where} / {key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{where} / {index}")
    elif isinstance(one, float) and isinstance(other, float):
        if not (math.isclose(one, other, rel_tol=FOUR_DIGITS) or (math.isnan(one) and math.isnan(other))):
            yield f"{where}: {one} and {other}"
    elif one != other:
        yield f"{where}: {one!r} and {other!r}"


@pytest.mark.parametrize("kept", range(max(1, min(2, len(SUPPORTED)))), ids=lambda kept: f"keeping {kept}")
def test_numpy_without_the_newest_instructions_gives_the_same_answers(kept: int) -> None:
    disabled = SUPPORTED[kept:]

    here, there = run(), run(disabled)

    assert all(here["features"][name] and not there["features"][name] for name in disabled)
    assert list(differences(here["answers"], there["answers"])) == []


def test_other_kernels_for_exponentials_and_sums_give_the_same_answers() -> None:
    here, there = run(), run(SUPPORTED, old_kernels=True)

    assert not any(there["features"][name] for name in SUPPORTED)
    assert list(differences(here["answers"], there["answers"])) == []


def test_last_bits_of_a_step_model_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand times what processors differ by, so that it holds for others, too."""

    def nudged(**configuration: Any) -> FittedStep:
        fitted = step_for(**configuration)
        return replace(fitted, model=_nudged(fitted.model))

    monkeypatch.setattr(evaluate, "step_for", nudged)

    assert list(differences(run()["answers"], json.loads(json.dumps(answers())))) == []


def test_a_fourth_digit_and_another_replica_are_differences() -> None:
    document = {"replicas": 3, "latency": [100.0, None]}

    assert list(differences(document, {"replicas": 3, "latency": [100.001, None]})) == []
    assert len(list(differences(document, {"replicas": 3, "latency": [100.1, None]}))) == 1
    assert len(list(differences(document, {"replicas": 4, "latency": [100.0, None]}))) == 1
    assert len(list(differences(document, {"replicas": 3, "latency": [100.0]}))) == 1


def _nudged(step: StepModel) -> StepModel:
    """The model with every duration off by some 1e-13 of itself, each by another amount."""
    seconds = [field.name for field in fields(step) if field.name.endswith("seconds")]
    changed = {name: getattr(step, name) * (1 + 1e-13 * math.sin(1 + i)) for i, name in enumerate(seconds)}
    return replace(step, **changed)
