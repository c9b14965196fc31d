from __future__ import annotations

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
    poisson_arrivals,
    simulate,
)
from firsttoken_sizing.simulation.compiled import IS_COMPILED
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Batching, Routing

STEP = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10, max_batch=8)
LENGTHS = Lengths(300, 250, 60)
COMPILED = ("compiled", "heap", "timing", "in_flight_batches", "static_batches", "kernel")


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
    for name in COMPILED:
        monkeypatch.delitem(sys.modules, f"{package.__name__}.{name}")
        monkeypatch.delattr(package, name)
    plain = outcomes(requests, settings)

    assert not sys.modules["firsttoken_sizing.simulation.compiled"].IS_COMPILED
    assert np.array_equal(compiled, plain)


def test_importing_the_package_does_not_import_numba() -> None:
    import subprocess

    code = "import firsttoken_sizing.simulation, sys; sys.exit('numba' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
