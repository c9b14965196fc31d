from __future__ import annotations

import ast
import inspect
import sys

import numpy as np
import pytest

import firsttoken_sizing.simulation as package
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.simulation import (
    KvAdmission,
    Requests,
    Settings,
    client_pauses,
    equal_requests,
    kernel,
    poisson_arrivals,
    simulate,
)
from firsttoken_sizing.simulation.compiled import IS_COMPILED
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Batching, Routing

STEP = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10, max_batch=8)
LENGTHS = Lengths(300, 250, 60)
KERNEL_IMPORTS = {"__future__", "math", "dataclasses", "typing", "numpy", "numpy.typing"}


def outcomes(requests: Requests, settings: Settings) -> np.ndarray:
    outcome = simulate(STEP, requests, settings)
    return np.concatenate((outcome.first_token_s, outcome.finish_s, outcome.busy_s, outcome.replica))


@pytest.mark.skipif(not IS_COMPILED, reason="numba is not installed")
@pytest.mark.parametrize("batching", Batching)
@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed loop"])
def test_without_numba_every_time_is_the_same(
    monkeypatch: pytest.MonkeyPatch, batching: Batching, closed: bool
) -> None:
    rng = np.random.default_rng(31)
    arrival = client_pauses(60, rng) if closed else poisson_arrivals(20.0, 60, rng)
    requests = equal_requests(LENGTHS, arrival, 12 if closed else None)
    settings = Settings(
        batching=batching,
        replicas=2,
        routing=Routing.LEAST_LOADED,
        kv_cache_tokens=1500,
        kv_admission=KvAdmission.PAGED,
    )
    compiled = outcomes(requests, settings)

    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "firsttoken_sizing.simulation.compiled")
    monkeypatch.delattr(package, "compiled")
    plain = outcomes(requests, settings)

    assert not sys.modules["firsttoken_sizing.simulation.compiled"].IS_COMPILED
    assert np.array_equal(compiled, plain)


def test_compiled_code_stands_on_one_file_so_that_it_cannot_be_stale() -> None:
    """Numba compiles again where the file of `run` has changed, and looks at no other."""
    tree = ast.parse(inspect.getsource(kernel))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}

    assert imported == KERNEL_IMPORTS


def test_importing_the_package_does_not_import_numba() -> None:
    import subprocess

    code = "import firsttoken_sizing.simulation, sys; sys.exit('numba' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
